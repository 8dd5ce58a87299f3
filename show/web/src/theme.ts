/** Light or dark: as the system has it, or as it was chosen here. */

const KEY = "ttmem-theme";

export type Theme = "light" | "dark";

const system = matchMedia("(prefers-color-scheme: dark)");

export function theme(): Theme {
  const chosen = localStorage.getItem(KEY);
  return chosen === "light" || chosen === "dark" ? chosen : system.matches ? "dark" : "light";
}

export function applyTheme(onChange: () => void): void {
  const apply = () => {
    document.documentElement.dataset["theme"] = theme();
    onChange();
  };
  system.addEventListener("change", apply);
  apply();
}

export function switchTheme(): void {
  localStorage.setItem(KEY, theme() === "dark" ? "light" : "dark");
  document.documentElement.dataset["theme"] = theme();
}
