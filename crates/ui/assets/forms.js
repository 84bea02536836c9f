// Sends forms that change something, so that an error is shown in place and the typed text is kept.
// Without scripts they are plain forms.
import { refreshPage } from './live.js';

export function toast(text, bad = false) {
  const shown = document.createElement('p');
  shown.className = bad ? 'toast bad' : 'toast';
  shown.textContent = text;
  document.querySelector('#toasts')?.append(shown);
  setTimeout(() => shown.remove(), 6000);
}

function tellProblem(form, text, ...more) {
  const place = form.querySelector('.problem');
  if (!place) return toast(text, true);
  place.replaceChildren(text, ...more);
  place.hidden = false;
}

// A link to the sign-in page. The typed text can still be copied from this page.
function signInLink() {
  const link = document.createElement('a');
  link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = 'Sign in';
  return link;
}

// The action is done, so the next submission counts as another form.
function renewKey(form) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const key = form.elements.form_key;
  if (key) key.value = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

async function send(form, submitter) {
  if (submitter) submitter.disabled = true;
  try {
    const response = await fetch(form.action, {
      method: 'POST',
      headers: { 'x-flovyn-part': '1' },
      body: new URLSearchParams(new FormData(form)),
    });
    const is_json = response.headers.get('content-type')?.startsWith('application/json');
    if (response.redirected || !is_json) {
      if (response.ok) location.assign(response.url);
      else tellProblem(form, `The server said ${response.status}. Load the page again.`);
      return;
    }
    const answer = await response.json();
    if (!response.ok) {
      const text = [answer.error, answer.message, answer.code].filter(Boolean).join(' · ');
      if (response.status === 401) tellProblem(form, `${text} · `, signInLink());
      else tellProblem(form, text);
      return;
    }
    renewKey(form);
    form.closest('[popover]')?.hidePopover();
    if (new URL(answer.page, location.href).pathname !== location.pathname) location.assign(answer.page);
    else await refreshPage();
  } catch {
    tellProblem(form, 'The server cannot be reached.');
  } finally {
    if (submitter) submitter.disabled = false;
  }
}

export function watchForms() {
  document.addEventListener('submit', (event) => {
    if (!event.target.matches('form[data-action]')) return;
    event.preventDefault();
    send(event.target, event.submitter);
  });
  document.addEventListener('change', (event) => {
    if (event.target.matches('[data-submit]')) event.target.form.requestSubmit();
  });
  // An empty filter need not be in the URL.
  document.addEventListener('formdata', (event) => {
    if (event.target.method !== 'get') return;
    for (const [name, value] of [...event.formData]) if (value === '') event.formData.delete(name);
  });
}
