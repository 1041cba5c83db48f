// Runs when the page has been loaded. The plots' gestures share `gestures`; the server gets each change of its `data`.
gestures.send = (kind, channel = 0, place = -1, t = 0, y = 0) => {
  gestures.serial = (gestures.serial ?? 0) + 1;
  gestures.data = {kind: [kind], channel: [channel], place: [place], t: [t], y: [y], serial: [gestures.serial]};
};

gestures.last = {kind: "", now: -Infinity, sx: 0, sy: 0};

gestures.nearest = (fig, points, channel, x, y) => {
  const {x_range, y_range, inner_width, inner_height} = fig;
  const across = inner_width / (x_range.end - x_range.start), up = inner_height / (y_range.end - y_range.start);
  const times = points.data.t, values = points.data["y" + channel];
  let [best, least] = [-1, window.matchMedia("(pointer: coarse)").matches ? 30 : 16];
  for (let i = 0; i < times.length; i++) {
    const far = Math.hypot((times[i] - x) * across, (values[i] - y) * up);
    if (far < least) [best, least] = [i, far];
  }
  return best;
};

// Sends the theme, now and whenever it changes.
const theme = document.documentElement.dataset.theme;
document.getElementById("theme").setAttribute("aria-pressed", theme === "dark");
if (theme !== drawn) gestures.send(theme);
window.addEventListener("odeprocess-theme", (event) => gestures.send(event.detail));

// Keys: Delete and Backspace delete the selected point; Tab turns on the frame around the plot that has the focus.
window.addEventListener("keydown", (event) => {
  if (event.key === "Tab") document.documentElement.dataset.keys = "yes";
  const writing = event.composedPath()[0].matches?.("input, select, textarea, button");
  if (!writing && (event.key === "Delete" || event.key === "Backspace")) gestures.send("delete-selected");
});
window.addEventListener("pointerdown", () => delete document.documentElement.dataset.keys);

// A finger on a point drags the point; anywhere else it scrolls the page.
const preventScroll = (event) => {
  const path = event.composedPath();
  const view = [...Bokeh.index.all_views()].find((each) => each.model.type === "Figure" && path.includes(each.el));
  const dots = view?.model.renderers.find((each) => each.name === "points");
  if (!dots) return;
  const box = view.canvas_view.events_el.getBoundingClientRect(), finger = event.touches[0];
  const x = view.frame.x_scale.invert(finger.clientX - box.left), y = view.frame.y_scale.invert(finger.clientY - box.top);
  if (gestures.nearest(view.model, dots.data_source, view.model.tags[0], x, y) >= 0) event.preventDefault();
};
document.addEventListener("touchstart", preventScroll, {passive: false, capture: true});
