// A table of native inputs. It is drawn again when rows are added or deleted; otherwise only values change, so that the focus stays.
export function render({model}) {
  const root = document.createElement("div");
  let serial = 0;
  const send = (kind, place, row) => { model.edit = {kind, place, row, serial: ++serial}; };
  const read = (inputs) => inputs.map((input) => input.value.trim() === "" ? null : Number(input.value));
  const shown = (value) => value == null ? "" : String(Number(value.toPrecision(5)));

  function line(row, place) {
    const tr = document.createElement("tr"), fresh = place < 0;
    const inputs = model.names.map((name, k) => {
      const input = document.createElement("input");
      Object.assign(input, {type: "number", step: "any", value: fresh ? "" : shown(row[k])});
      input.setAttribute("aria-label", fresh ? `New observation, ${name}` : `Observation ${place + 1}, ${name}`);
      if (fresh) input.placeholder = name;
      tr.insertCell().append(input);
      return input;
    });
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = fresh ? "Add" : "×";
    button.setAttribute("aria-label", fresh ? "Add this observation" : `Delete observation ${place + 1}`);
    tr.insertCell().append(button);
    if (fresh) {
      const add = () => send("add", -1, read(inputs));
      button.addEventListener("click", add);
      inputs.forEach((input) => input.addEventListener("keydown", (event) => event.key === "Enter" && add()));
    } else {
      button.addEventListener("click", () => send("delete", place, []));
      inputs.forEach((input) => input.addEventListener("change", () => send("set", place, read(inputs))));
    }
    return tr;
  }

  function draw() {
    const table = document.createElement("table");
    const caption = table.createCaption();
    caption.textContent = "Change a number, or add a row.";
    const head = table.createTHead().insertRow();
    for (const name of [...model.names, ""]) {
      const th = document.createElement("th");
      th.scope = "col";
      th.textContent = name;
      if (!name) th.innerHTML = "<span class='hidden'>action</span>";
      head.append(th);
    }
    const body = table.createTBody();
    model.rows.forEach((row, place) => body.append(line(row, place)));
    const fresh = line([], -1);
    body.append(fresh);
    const added = root.dataset.count !== undefined && model.rows.length > Number(root.dataset.count);
    const focused = root.contains(root.getRootNode().activeElement);
    root.replaceChildren(table);
    if (focused) (added ? fresh : body.lastChild).querySelector("input").focus();
    root.dataset.count = model.rows.length;
  }

  function refresh() {
    const lines = [...root.querySelectorAll("tbody tr")].slice(0, -1);
    if (lines.length !== model.rows.length) return draw();
    lines.forEach((tr, place) => tr.querySelectorAll("input").forEach((input, k) => {
      if (input !== root.getRootNode().activeElement) input.value = shown(model.rows[place][k]);
    }));
  }

  model.on("rows", refresh);
  model.on("names", draw);
  draw();
  return root;
}
