"use strict";
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const toggle = document.getElementById("theme");

  // --- light and dark: as the system says, until the reader chooses
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("binaryduo-theme"); } catch (error) { chosen = null; }
  const colours = () => {
    const style = getComputedStyle(root);
    const of = (name) => style.getPropertyValue(name).trim();
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", "font.color": of("--ink"),
      "xaxis.gridcolor": of("--line"), "yaxis.gridcolor": of("--line"),
      "modebar.bgcolor": "rgba(0,0,0,0)", "modebar.color": of("--soft"), "modebar.activecolor": of("--link"),
      "hoverlabel.bgcolor": of("--ground"), "hoverlabel.font.color": of("--ink"),
    };
  };
  const plots = () => Array.from(document.querySelectorAll(".plot"));
  const setTheme = (name) => {
    root.dataset.theme = name;
    toggle.setAttribute("aria-pressed", String(name === "dark"));
    toggle.textContent = name === "dark" ? "Light" : "Dark";
    plots().forEach((plot) => {
      if (!plot.data) return;
      const ink = getComputedStyle(root).getPropertyValue("--ink").trim();
      const lines = Object.fromEntries((plot.layout.shapes || []).map((_, i) => [`shapes[${i}].line.color`, ink]));
      Plotly.relayout(plot, { ...colours(), ...lines });
    });
  };
  const current = () => chosen || (system.matches ? "dark" : "light");
  toggle.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("binaryduo-theme", chosen); } catch (error) { /* a private window keeps nothing */ }
    setTheme(chosen);
  });
  system.addEventListener("change", () => { if (!chosen) setTheme(current()); });
  root.dataset.theme = current();

  // --- the menu: on a narrow screen it opens and closes; the section that is read is marked
  const nav = document.querySelector("nav"), menu = document.getElementById("menu");
  const open = (on) => { nav.classList.toggle("open", on); menu.setAttribute("aria-expanded", String(on)); };
  menu.addEventListener("click", () => open(!nav.classList.contains("open")));
  document.getElementById("contents").addEventListener("click", () => open(false));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") open(false); });
  const links = Array.from(nav.querySelectorAll("li a"));
  const heads = links.map((link) => document.getElementById(link.getAttribute("href").slice(1)));
  const mark = () => {
    let at = -1;
    heads.forEach((head, number) => { if (head && head.getBoundingClientRect().top < 120) at = number; });
    links.forEach((link, number) => {
      if (number === at) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    });
  };
  document.addEventListener("scroll", mark, { passive: true });
  mark();

  // --- tables: a click or Enter on a column's head sorts by it
  document.querySelectorAll("table.sortable").forEach((table) => {
    const heads = Array.from(table.tHead.rows[0].cells);
    const key = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
    };
    const compare = (a, b) => {
      if (typeof a === "number" && typeof b === "number") return a - b;
      if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
      return a.localeCompare(b, "en", { numeric: true });
    };
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const rows = Array.from(body.rows).sort((a, b) => compare(key(a, column), key(b, column)) * (up ? 1 : -1));
      body.append(...rows);
    }));
  });

  // --- plots
  const narrow = window.innerWidth < 600;  // there the buttons would hide the title; fingers can zoom without them
  const options = { responsive: true, displaylogo: false, displayModeBar: narrow ? false : "hover",
    modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  plots().forEach((plot, number) => {
    const figure = figures[number];
    if (figure.layout.height) plot.style.height = `${figure.layout.height}px`;  // a heat map is as tall as its layers
    Plotly.newPlot(plot, figure.data, figure.layout, options);
  });
  document.querySelectorAll("button.log").forEach((button) => button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    Plotly.relayout(document.getElementById(button.dataset.for), { "yaxis.type": on ? "log" : "linear" });
  }));
  setTheme(current());
  root.dataset.ready = "yes";
})();
