// Handles a gesture on a plot: taps add or select, drags move, double taps delete. See page_setup.js for the functions it uses.
// A dragged point moves here at once; the next step is sent when the server has answered the last (see next_drag_step.js).
const {x_range, y_range} = fig;
const x = Math.min(Math.max(cb_obj.x, x_range.start), x_range.end);
const y = Math.min(Math.max(cb_obj.y, y_range.start), y_range.end);
const drag = gestures.drag;
const place = drag ? drag.place : gestures.nearest(fig, points, channel, x, y);

switch (cb_obj.event_name) {
  case "tap":
  case "doubletap": { // Bokeh's name for the second of two quick taps, however far apart they are
    if (x !== cb_obj.x || y !== cb_obj.y) break; // outside the frame
    const last = gestures.last, now = performance.now();
    const again = now - last.now < 400 && Math.hypot(cb_obj.sx - last.sx, cb_obj.sy - last.sy) < 16;
    if (again && last.kind === "add") break; // a double click on an empty place adds one point
    const kind = place < 0 ? "add" : again ? "delete" : "select";
    if (kind === "select") points.selected.indices = [place];
    gestures.last = {kind, now, sx: cb_obj.sx, sy: cb_obj.sy};
    gestures.send(kind, channel, place, x, y);
    break;
  }
  case "panstart":
    if (place < 0) break;
    gestures.drag = {place, waiting: false, next: null};
    gestures.send("grab", channel, place);
    break;
  case "pan":
    if (!drag) break;
    points.data.t[place] = x;
    points.data["y" + channel][place] = y;
    points.change.emit();
    if (drag.waiting) drag.next = [channel, x, y];
    else {
      drag.waiting = true;
      gestures.send("move", channel, place, x, y);
    }
    break;
  case "panend":
    if (drag) gestures.send("drop", channel, place, x, y);
    gestures.drag = null;
    break;
}
