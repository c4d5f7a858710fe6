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

// Charts: drawn as SVG. `ast` interprets expressions, so that the page needs no eval.
const specs = JSON.parse(document.getElementById("charts").textContent);
const options = {
  renderer: "svg",
  actions: false,
  ast: true,
  defaultStyle: false,
  tooltip: { disableDefaultStyle: true, theme: "page" },
};
Promise.all(
  Object.entries(specs).map(([id, spec]) => vegaEmbed(document.getElementById(id), spec, options)),
).then(
  () => { document.documentElement.dataset.charts = "drawn"; },
  (error) => { console.error(error); },
);
