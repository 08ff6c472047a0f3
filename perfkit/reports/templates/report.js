"use strict";
(() => {
  const root = document.documentElement;
  const keep = (value) => { try { localStorage.setItem("perfkit-theme", value); } catch { /* a local file may not */ } };
  const kept = () => { try { return localStorage.getItem("perfkit-theme"); } catch { return null; } };
  if (kept()) root.dataset.theme = kept();
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    keep(root.dataset.theme);
  });

  // Numbers by their raw value, words by their text; what is missing stays last in both directions.
  const key = (row, index) => {
    const cell = row.cells[index];
    if (cell.classList.contains("missing") || cell.textContent.trim() === "") return null;
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const sort = (header) => {
    const table = header.closest("table");
    const body = table.tBodies[0];
    const ascending = header.getAttribute("aria-sort") !== "ascending";
    for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const rows = Array.from(body.rows, (row) => [key(row, header.cellIndex), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return ascending ? compare(a, b) : compare(b, a);
    });
    body.append(...rows.map(([, row]) => row));
  };
  for (const button of document.querySelectorAll("table.sortable thead button")) {
    button.addEventListener("click", () => sort(button.closest("th")));
  }

  const filter = document.getElementById("filter");
  const count = document.getElementById("filter-count");
  if (filter) filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    let shown = 0;
    let all = 0;
    for (const table of document.querySelectorAll("table.sortable")) {
      shown = 0;
      all = table.tBodies[0].rows.length;
      for (const row of table.tBodies[0].rows) {
        const named = [row.cells[0].title, row.cells[0].textContent, row.cells[1]?.textContent ?? ""].join(" ");
        row.hidden = !named.toLowerCase().includes(wanted);
        if (!row.hidden) shown += 1;
      }
    }
    count.textContent = wanted ? `${shown} of ${all} launches` : "";
  });
})();
