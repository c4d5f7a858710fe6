"use strict";
// Tables: a click on a header sorts, a second one turns the order; empty cells stay last.
for (const head of document.querySelectorAll("th[aria-sort]")) {
  head.querySelector("button").addEventListener("click", () => {
    const upwards = head.getAttribute("aria-sort") !== "ascending";
    const column = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const key = (row) => {
      const cell = row.cells[column];
      return "sort" in cell.dataset ? cell.dataset.sort : cell.textContent.trim();
    };
    const numbers = [...body.rows].some((row) => "sort" in row.cells[column].dataset);
    const order = (a, b) => (numbers ? a - b : a.localeCompare(b, "en", { numeric: true }));
    const rows = [...body.rows].sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === "" || b === "") return (a === "") - (b === "");
      return upwards ? order(a, b) : order(b, a);
    });
    for (const other of head.parentElement.querySelectorAll("th[aria-sort]")) {
      other.setAttribute("aria-sort", "none");
    }
    head.setAttribute("aria-sort", upwards ? "ascending" : "descending");
    body.append(...rows);
  });
}

// What marks and terms say, under the pointer or when a keyboard reaches them. Without this script
// the browser shows the titles of marks by itself.
const tip = document.getElementById("tip");
for (const title of document.querySelectorAll(".chart title")) {
  title.parentElement.dataset.tip = title.textContent;
  title.remove();
}
const show = (event) => {
  const from = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = from === null;
  if (from === null) return;
  tip.textContent = from.dataset.tip;
  const box = from.getBoundingClientRect();
  const [x, y] = event.clientX === undefined ? [box.left, box.bottom] : [event.clientX, event.clientY];
  const edge = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(8, Math.min(x + 12, edge))}px`;
  const below = y + 16 + tip.offsetHeight < window.innerHeight;
  tip.style.top = `${below ? y + 16 : y - tip.offsetHeight - 12}px`;
};
let pointer = null; // where it was last seen
for (const event of ["pointermove", "pointerdown"]) {
  document.addEventListener(event, (at) => {
    pointer = { clientX: at.clientX, clientY: at.clientY };
    show(at);
  });
}
document.addEventListener("focusin", show);
document.addEventListener("focusout", () => { tip.hidden = true; });
// A page that scrolls brings something else under the pointer; what the keyboard reached goes along.
document.addEventListener("scroll", () => {
  if (document.activeElement.dataset.tip) show({ target: document.activeElement });
  else if (pointer === null) tip.hidden = true;
  else {
    const below = document.elementFromPoint(pointer.clientX, pointer.clientY);
    show({ target: below ?? document.body, ...pointer });
  }
});
document.documentElement.dataset.ready = "yes";
