// Light or dark: the system's setting until the visitor chooses. The server reads the cookie, so pages render in the
// right theme.
const YEAR = 365 * 24 * 60 * 60;

export function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  document.cookie = `flovyn_theme=${root.dataset.theme}; Path=/; Max-Age=${YEAR}; SameSite=Strict`;
}

export function watchTheme() {
  document.querySelector('[data-theme-switch]')?.addEventListener('click', switchTheme);
}
