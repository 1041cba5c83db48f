// Runs when the server has sent new curves: if a point is being dragged, sends where it is by now.
const drag = gestures.drag;
if (drag) {
  drag.waiting = drag.next !== null;
  if (drag.next) {
    const [channel, t, y] = drag.next;
    drag.next = null;
    gestures.send("move", channel, drag.place, t, y);
  }
}
