// Keeps a page up to date: follows its stream, fetches the page again after an event, and swaps the parts that differ.
// Only the server knows what a page looks like.
import { tellTimes } from './times.js';

const SETTLE_MS = 120;
const AGAIN_MS = 1000;
const MAX_STREAMED = 64 * 1024;

let refreshing = null;

// A part is not swapped while the visitor types in it or has a dialog open.
function isInUse(part) {
  return part.querySelector(':popover-open') || (part.contains(document.activeElement)
    && document.activeElement.matches('input, textarea, select'));
}

// Each rendering of a form has its own key. A difference in keys alone is ignored.
const KEY = /name="form_key" value="\w*"/g;
const isSame = (one, other) => one.innerHTML.replace(KEY, '') === other.innerHTML.replace(KEY, '');

function swap(part, fresh) {
  if (isSame(part, fresh) || isInUse(part)) return;
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
  const lines = part.querySelector('.lines');
  const sticks = !lines || lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
  const kept = lines?.scrollTop;
  part.replaceChildren(...fresh.childNodes);
  const scrolled = part.querySelector('.lines');
  if (scrolled) scrolled.scrollTop = sticks ? scrolled.scrollHeight : kept;
  if (focused) part.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  tellTimes(part);
}

function keepAttribute(element, fresh, name) {
  if (fresh.dataset[name] === undefined) delete element.dataset[name];
  else element.dataset[name] = fresh.dataset[name];
}

// Concurrent calls share one fetch.
export function refreshPage() {
  refreshing ??= fetchParts().finally(() => { refreshing = null; });
  return refreshing;
}

async function fetchParts() {
  try {
    const response = await fetch(location.href, { headers: { 'x-flovyn-refresh': '1' } });
    if (response.redirected) return location.assign(response.url);
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    for (const part of document.querySelectorAll('[data-part]')) {
      const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
      if (!fresh) continue;
      keepAttribute(part, fresh, 'refresh');
      swap(part, fresh);
    }
    // A root that has ended is not followed any more; one that begins again is followed.
    const [root, fresh] = [document, page].map((one) => one.querySelector('[data-root]'));
    if (root && fresh) {
      keepAttribute(root, fresh, 'follow');
      startFollowing(root);
    }
  } catch {
    // The server is unreachable: the next round tries again.
  }
}

// Reads server-sent events, one after the other, as { id, type, data }.
async function* eventsOf(path, since) {
  const headers = since ? { 'last-event-id': since } : {};
  const response = await fetch(path, { headers });
  if (!response.ok || response.redirected) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split('\n\n');
    text = blocks.pop();
    for (const block of blocks) {
      const event = {};
      for (const line of block.split('\n')) {
        const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (name) event[name === 'event' ? 'type' : name] = value;
      }
      if (event.id !== undefined) yield event;
    }
  }
}

// As in the rest of the page: invisible characters, and those that change the text direction, are shown by their
// number.
const UNSEEN = /[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;
const visible = (text) => text.replace(UNSEEN, (letter) => `\\u${letter.codePointAt(0).toString(16).padStart(4, '0')}`);

function showStreamed(data) {
  const section = document.querySelector('[data-streamed]');
  if (!section) return;
  section.hidden = false;
  const code = section.querySelector('code');
  code.textContent = `${code.textContent}${visible(data)}\n`.slice(-MAX_STREAMED);
  code.parentElement.scrollTop = code.parentElement.scrollHeight;
}

let log = null;
let is_following = false;

async function follow(root) {
  let since = root.dataset.since;
  let pending = 0;
  const settle = () => {
    clearTimeout(pending);
    pending = setTimeout(refreshPage, SETTLE_MS);
  };
  while (root.dataset.follow) {
    try {
      for await (const event of eventsOf(root.dataset.follow, since)) {
        if (event.type === 'data') {
          showStreamed(event.data);
          continue;
        }
        // Events of executions are numbered, so a broken stream resumes after the last event.
        if (since !== undefined) {
          since = event.id;
          log?.grow(Number(event.id));
        }
        settle();
      }
    } catch {
      // The stream broke: resume after the last event.
    }
    clearTimeout(pending);
    await refreshPage();
    if (root.dataset.follow) await pause(AGAIN_MS);
  }
}

function startFollowing(root) {
  if (is_following || !root.dataset.follow) return;
  is_following = true;
  follow(root).finally(() => { is_following = false; });
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

export async function keepPageTrue(event_log) {
  log = event_log;
  const root = document.querySelector('[data-root]');
  if (root) startFollowing(root);
  // Lists have no stream: they are fetched at their refresh interval, while the page is visible.
  for (;;) {
    const ms = Number(document.querySelector('[data-refresh]')?.dataset.refresh ?? 0);
    await pause(ms || AGAIN_MS);
    if (ms && !document.hidden) await refreshPage();
  }
}

// Children of children are fetched when their branch is opened.
export function watchBranches() {
  document.addEventListener('toggle', async (event) => {
    const branch = event.target;
    if (!branch.open || !branch.dataset?.branch || branch.dataset.loaded) return;
    branch.dataset.loaded = 'true';
    const response = await fetch(branch.dataset.branch);
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    if (response.ok) branch.querySelector('.branch').replaceChildren(...page.body.childNodes);
  }, true);
}
