// The server has answered: if a point is being dragged, tell where it is by now.
const drag = gestures.drag;
if (drag) {
  drag.waiting = drag.next !== null;
  if (drag.next) {
    const [channel, t, y] = drag.next;
    drag.next = null;
    gestures.tell("move", channel, drag.place, t, y);
  }
}
