// The page is there: tell the server which theme is on, now and whenever it changes, and of keys that delete a point.
gestures.tell ??= (kind, channel, place, t, value) => {
  gestures.serial = (gestures.serial ?? 0) + 1;
  gestures.data = {kind: [kind], channel: [channel], place: [place], t: [t], y: [value], serial: [gestures.serial]};
};
const tell = (theme) => gestures.tell(theme, 0, -1, 0, 0);
const theme = document.documentElement.dataset.theme;
document.getElementById("theme").setAttribute("aria-pressed", theme === "dark");
if (theme !== drawn) tell(theme);
window.addEventListener("odeprocess-theme", (event) => tell(event.detail));
window.addEventListener("keydown", (event) => {
  const writing = event.composedPath()[0].matches?.("input, select, textarea, button");
  if (!writing && (event.key === "Delete" || event.key === "Backspace")) gestures.tell("delete-selected", 0, -1, 0, 0);
});
