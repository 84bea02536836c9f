// Copy buttons. Parts of pages are swapped, so one listener serves all buttons.
export function watchCopies() {
  document.addEventListener('click', async (event) => {
    const button = event.target.closest('[data-copy]');
    if (!button) return;
    event.preventDefault();
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.dataset.state = 'copied';
    } catch {
      button.dataset.state = 'failed';
    }
    setTimeout(() => delete button.dataset.state, 1200);
  });
}
