// The entry point. Each module looks for its elements and does nothing if there are none.
import { watchCopies } from './copy.js';
import { watchForms } from './forms.js';
import { watchKeys } from './keys.js';
import { keepPageTrue, watchBranches } from './live.js';
import { openLog } from './log.js';
import { watchTheme } from './theme.js';
import { keepTimes } from './times.js';

watchTheme();
watchCopies();
watchForms();
watchKeys();
keepTimes();
const log = openLog(document.querySelector('[data-log]'));
keepPageTrue(log);
watchBranches();
document.documentElement.dataset.ready = 'true';
