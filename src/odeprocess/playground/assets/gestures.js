// A gesture on a plot: taps add or select, drags move, double taps delete. The server hears of it through `gestures`.
// A dragged point moves here at once; the next step is sent when the server has answered the last (see answered.js).
const {x_range, y_range, inner_width, inner_height} = fig;
const times = points.data.t, values = points.data["y" + channel];
const wide = x_range.end - x_range.start, high = y_range.end - y_range.start;
const x = Math.min(Math.max(cb_obj.x, x_range.start), x_range.end);
const y = Math.min(Math.max(cb_obj.y, y_range.start), y_range.end);
const reach = window.matchMedia("(pointer: coarse)").matches ? 28 : 16;

gestures.tell ??= (kind, channel, place, t, value) => {
  gestures.serial = (gestures.serial ?? 0) + 1;
  gestures.data = {kind: [kind], channel: [channel], place: [place], t: [t], y: [value], serial: [gestures.serial]};
};

const nearest = () => {
  let [best, least] = [-1, reach];
  for (let i = 0; i < times.length; i++) {
    const far = Math.hypot((times[i] - x) / wide * inner_width, (values[i] - y) / high * inner_height);
    if (far < least) [best, least] = [i, far];
  }
  return best;
};

switch (cb_obj.event_name) {
  case "tap": {
    if (x !== cb_obj.x || y !== cb_obj.y) break; // outside the frame
    const place = nearest();
    if (place < 0) gestures.tell("add", channel, -1, x, y);
    else {
      points.selected.indices = [place];
      gestures.tell("select", channel, place, x, y);
    }
    break;
  }
  case "doubletap": {
    const place = nearest();
    if (place >= 0) gestures.tell("delete", channel, place, x, y);
    break;
  }
  case "panstart": {
    const place = nearest();
    gestures.drag = place < 0 ? null : {place, waiting: false, next: null};
    if (gestures.drag) gestures.tell("grab", channel, place, x, y);
    break;
  }
  case "pan": {
    const drag = gestures.drag;
    if (!drag) break;
    times[drag.place] = x;
    values[drag.place] = y;
    points.change.emit();
    if (drag.waiting) drag.next = [channel, x, y];
    else {
      drag.waiting = true;
      gestures.tell("move", channel, drag.place, x, y);
    }
    break;
  }
  case "panend": {
    if (gestures.drag) gestures.tell("drop", channel, gestures.drag.place, x, y);
    gestures.drag = null;
    break;
  }
}
