// Keeps "3 min ago" up to date, in the same words as the server.
const UNITS = [[86400000, 'd'], [3600000, 'h'], [60000, 'min'], [1000, 's']];

function coarse(ms) {
  const [unit, name] = UNITS.find(([size]) => ms >= size) ?? UNITS[3];
  return `${Math.floor(ms / unit)} ${name}`;
}

export function tellTimes(within = document) {
  // With a virtual clock, the server's time differs.
  const now = Date.now() + Number(document.documentElement.dataset.ahead ?? 0);
  for (const time of within.querySelectorAll('time[data-ago]')) {
    const passed = ('real' in time.dataset ? Date.now() : now) - Date.parse(time.dateTime);
    if (Number.isNaN(passed)) continue;
    let text = `${coarse(passed)} ago`;
    if (Math.abs(passed) < 1000) text = 'just now';
    else if (passed < 0) text = `in ${coarse(-passed)}`;
    if (time.textContent !== text) time.textContent = text;
  }
}

export function keepTimes() {
  tellTimes();
  setInterval(tellTimes, 1000);
}
