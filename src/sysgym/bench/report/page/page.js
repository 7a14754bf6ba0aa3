"use strict";
// Tables sort by a click on a heading; the page is complete without this.
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows];
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? cell.innerText : Number(cell.dataset.sort);
  };
  const compare = (one, other) =>
    typeof one === "number" && typeof other === "number" ? one - other
      : typeof one === "number" ? -1 : typeof other === "number" ? 1 : one.localeCompare(other);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const sign = falling ? -1 : 1;
      const sorted = [...rows].sort((a, b) => {
        const [one, other] = [value(a, column), value(b, column)];
        // Cells without a value stay at the end in both directions.
        return (typeof one === typeof other ? sign : 1) * compare(one, other);
      });
      table.tBodies[0].append(...sorted);
    });
  });
}
// A cue beside every table and picture that is wider than the screen.
const panes = [...document.querySelectorAll(".pane")];
const look = (pane) => {
  pane.parentElement.classList.toggle("more", pane.scrollWidth > pane.clientWidth + 1);
  pane.parentElement.classList.toggle("end", pane.scrollLeft + pane.clientWidth >= pane.scrollWidth - 1);
};
panes.forEach((pane) => pane.addEventListener("scroll", () => look(pane), { passive: true }));
const lookAtAll = () => panes.forEach(look);
window.addEventListener("resize", lookAtAll);
lookAtAll();
