// Keyboard shortcuts: listed by ?, inactive while the visitor types.
import { switchTheme } from './theme.js';

const LONGEST_CHORD_MS = 1200;
let chord_until = 0;

const is_typing = (target) => target.closest('input, textarea, select, [contenteditable]');

function moveRow(step) {
  const links = [...document.querySelectorAll('[data-rows] .row-link')].filter((link) => link.offsetParent);
  if (!links.length) return false;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1);
  links[next].focus();
  return true;
}

function press(key) {
  if (performance.now() < chord_until) {
    chord_until = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    link?.click();
    return Boolean(link);
  }
  switch (key) {
    case 'g':
      chord_until = performance.now() + LONGEST_CHORD_MS;
      return true;
    case '/': {
      const search = document.querySelector('[data-search]');
      if (search) {
        search.focus();
        search.select();
      } else document.querySelector('[data-go="e"]')?.click();
      return true;
    }
    case '?':
      document.querySelector('#help')?.togglePopover();
      return true;
    case 'd':
      switchTheme();
      return true;
    case 'n': {
      const dialog = document.querySelector('#start, #create');
      dialog?.showPopover();
      return Boolean(dialog);
    }
    case 'j':
      return moveRow(1);
    case 'k':
      return moveRow(-1);
    default:
      return false;
  }
}

export function watchKeys() {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || is_typing(event.target)) return;
    if (press(event.key)) event.preventDefault();
  });
}
