// A drawing that can be moved and enlarged: by dragging, two fingers or Ctrl with the wheel, buttons and keys.

const LEAST = 0.2;
const MOST = 3;
const HEIGHT = 340;
const READABLE = 0.85;
const MARGIN = 10;

/** Moves the group inside a drawing. */
export class View {
  #svg;
  #group;
  #x = 0;
  #y = 0;
  #scale = 1;

  constructor(svg, group) {
    this.#svg = svg;
    this.#group = group;
    svg.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => this.#drag(event));
  }

  /** Shows the beginning of a drawing, as large as it can be read. */
  begin(size) {
    this.#scale = Math.max(READABLE, this.#fitting(size));
    this.#move(MARGIN, MARGIN);
  }

  /** Shows all of a drawing. */
  fit(size) {
    this.#scale = Math.max(LEAST, this.#fitting(size));
    this.#move(MARGIN, MARGIN);
  }

  /** Enlarges around the middle. */
  zoom(factor) {
    this.#zoomAt(factor, this.#svg.clientWidth / 2, HEIGHT / 2);
  }

  /** Moves until a place of the drawing can be seen. */
  reveal(x, y, width, height) {
    const left = x * this.#scale + this.#x;
    const top = y * this.#scale + this.#y;
    const overRight = left + width * this.#scale - this.#svg.clientWidth;
    const overBottom = top + height * this.#scale - HEIGHT;
    this.#move(this.#x - Math.min(0, left - 10) - Math.max(0, overRight), this.#y - Math.min(0, top - 10) - Math.max(0, overBottom));
  }

  #fitting({ width, height }) {
    const room = this.#svg.clientWidth || 600;
    return Math.min(1, (room - 2 * MARGIN) / width, (HEIGHT - 2 * MARGIN) / height);
  }

  #zoomAt(factor, x, y) {
    const scale = Math.min(MOST, Math.max(LEAST, this.#scale * factor));
    const by = scale / this.#scale;
    this.#scale = scale;
    this.#move(x - (x - this.#x) * by, y - (y - this.#y) * by);
  }

  #move(x, y) {
    this.#x = x;
    this.#y = y;
    this.#group.setAttribute("transform", `translate(${x} ${y}) scale(${this.#scale})`);
  }

  #wheel(event) {
    // The wheel alone scrolls the page, as everywhere on it.
    if (event.ctrlKey || event.metaKey) {
      const frame = this.#svg.getBoundingClientRect();
      this.#zoomAt(Math.exp(-event.deltaY / 300), event.clientX - frame.left, event.clientY - frame.top);
    } else if (event.deltaX || event.shiftKey) {
      this.#move(this.#x - (event.deltaX || event.deltaY), this.#y);
    } else return;
    event.preventDefault();
  }

  #drag(start) {
    const from = [this.#x - start.clientX, this.#y - start.clientY];
    const drag = (event) => this.#move(event.clientX + from[0], event.clientY + from[1]);
    const stop = () => {
      window.removeEventListener("pointermove", drag);
      this.#svg.classList.remove("dragged");
    };
    this.#svg.classList.add("dragged");
    window.addEventListener("pointermove", drag);
    window.addEventListener("pointerup", stop, { once: true });
    window.addEventListener("pointercancel", stop, { once: true });
  }
}
