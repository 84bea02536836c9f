// The event log: as tall as all its rows, but only visible pages are in it. Rows have one height and sequence numbers
// have no gaps, so the position of every page is known before it is fetched and nothing moves.
const KEPT_BEYOND = 1;

class Log {
  constructor(element) {
    this.element = element;
    this.whole = element.querySelector('.log-whole');
    this.size = Number(element.dataset.pageSize);
    this.total = Number(element.dataset.total);
    this.pages = new Map();
    const first = element.querySelector('.log-page');
    const row = first.querySelector('.log-row');
    this.row = row ? row.getBoundingClientRect().height : 28;
    this.pages.set(Number(first.dataset.page), first);
    element.classList.add('placed');
    this.place(first);
    this.stretch();
    this.toEnd();
    element.addEventListener('scroll', () => this.look(), { passive: true });
    element.addEventListener('keydown', (event) => this.press(event));
    element.addEventListener('click', (event) => this.choose(event));
    document.querySelector('[data-log-start]')?.addEventListener('click', () => this.toStart());
    document.querySelector('[data-log-end]')?.addEventListener('click', () => this.toEnd());
    this.look();
  }

  place(page) {
    page.style.top = `${Number(page.dataset.page) * this.size * this.row}px`;
  }

  stretch() {
    this.whole.style.height = `${this.total * this.row}px`;
    const count = document.querySelector('[data-log-count]');
    if (count) count.textContent = this.total.toLocaleString('en');
  }

  toStart() {
    this.element.scrollTop = 0;
    this.look();
  }

  toEnd() {
    this.element.scrollTop = this.element.scrollHeight;
    this.look();
  }

  press(event) {
    if (event.target !== this.element) return;
    if (event.key === 'Home') this.toStart();
    else if (event.key === 'End') this.toEnd();
    else return;
    event.preventDefault();
  }

  // There are more events than before.
  grow(total) {
    if (!(total > this.total)) return;
    const { element } = this;
    const at_end = element.scrollHeight - element.scrollTop - element.clientHeight < this.row * 2;
    const last = Math.floor((this.total - 1) / this.size);
    this.total = total;
    this.stretch();
    this.fetch(last, true);
    if (at_end) this.toEnd();
    else this.look();
  }

  look() {
    const { element } = this;
    const height = this.size * this.row;
    const last = Math.floor((this.total - 1) / this.size);
    const from = Math.max(0, Math.floor(element.scrollTop / height) - KEPT_BEYOND);
    const to = Math.min(last, Math.floor((element.scrollTop + element.clientHeight) / height) + KEPT_BEYOND);
    for (const [number, page] of this.pages) {
      if (number >= from && number <= to) continue;
      page.remove();
      this.pages.delete(number);
    }
    for (let number = from; number <= to; number += 1) this.fetch(number);
  }

  async fetch(number, again = false) {
    if (number < 0 || (this.pages.has(number) && !again)) return;
    let page = this.pages.get(number);
    if (!page) {
      page = document.createElement('div');
      page.className = 'log-page';
      page.dataset.page = number;
      this.place(page);
      this.pages.set(number, page);
      this.whole.append(page);
    }
    try {
      const response = await fetch(`${this.element.dataset.log}?page=${number}`);
      if (!response.ok) throw new Error(response.status);
      const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
      page.replaceChildren(...fresh.body.childNodes);
      const last = Number(page.lastElementChild?.dataset.sequence ?? 0);
      if (last > this.total) {
        this.total = last;
        this.stretch();
      }
    } catch {
      if (page.childElementCount) return;
      page.remove();
      this.pages.delete(number);
    }
  }

  async choose(event) {
    const row = event.target.closest('.log-row');
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.element.querySelector('.log-row[aria-current]')?.removeAttribute('aria-current');
    row.setAttribute('aria-current', 'true');
    const response = await fetch(row.href, { headers: { 'x-flovyn-part': '1' } });
    if (!response.ok) return;
    const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
    document.querySelector('[data-log-detail]').replaceChildren(...fresh.body.childNodes);
  }
}

export function openLog(element) {
  return element ? new Log(element) : null;
}
