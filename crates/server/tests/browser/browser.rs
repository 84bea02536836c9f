//! A user at a browser: looks, clicks, types, and waits for expected content.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::driver::Driver;
use crate::worker::PATIENCE;
use crate::world::World;

static TURN: Mutex<()> = Mutex::const_new(());

/// One browser at a time, because each needs a whole processor. Take the lock before anything is set up: workers that
/// wait for it would fall silent.
pub(crate) async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

pub(crate) struct Browser {
    driver: Driver,
    pub(crate) server: String,
}

/// Runs a test with a browser, and closes the browser even if the test fails.
pub(crate) async fn with_browser<F>(world: &World, test: impl FnOnce(Arc<Browser>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    if std::env::var("FLOVYN_TEST_BROWSER").is_ok_and(|value| value == "none") {
        eprintln!("SKIPPED: there is no browser here (FLOVYN_TEST_BROWSER=none)");
        return;
    }
    let server = format!("http://{}", world.server.server.http_addr());
    let browser = Arc::new(Browser { driver: Driver::start().await, server });
    let ended = tokio::spawn(test(browser.clone())).await;
    // No other task uses the browser now.
    if let Some(browser) = Arc::into_inner(browser) {
        browser.driver.stop().await;
    }
    if let Err(error) = ended {
        resume_unwind(error.into_panic());
    }
}

impl Browser {
    /// Opens a page of the server and waits until its scripts run.
    pub(crate) async fn open(&self, path: &str) {
        self.driver.post("/url", json!({ "url": format!("{}{path}", self.server) })).await.unwrap();
        self.until("document.documentElement.dataset.ready === 'true'").await;
    }

    /// Signs in through the form.
    pub(crate) async fn sign_in(&self, credential: &str) {
        self.open("/login").await;
        self.write("input[name=credential]", credential).await;
        self.click("form .primary").await;
        self.until("location.pathname !== '/login' && document.documentElement.dataset.ready === 'true'")
            .await;
    }

    /// The value of an expression in the page.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        let body = json!({ "script": format!("return ({expression})"), "args": [] });
        self.driver.post("/execute/sync", body).await.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    pub(crate) async fn text(&self, selector: &str) -> String {
        let expression = format!("document.querySelector({})?.innerText ?? ''", json!(selector));
        self.value(&expression).await.as_str().unwrap().to_owned()
    }

    /// Waits inside the page, so that no time is lost. If the page is replaced in the meantime, the new page is asked.
    pub(crate) async fn until(&self, condition: &str) {
        let script = format!(
            "const done = arguments[arguments.length - 1]; const end = performance.now() + 1000; const look = () => {{ \
             if ({condition}) done(true); else if (performance.now() > end) done(false); else setTimeout(look, 20); }}; look();"
        );
        let begin = Instant::now();
        loop {
            let waited = self.driver.post("/execute/async", json!({ "script": script, "args": [] })).await;
            if waited == Ok(Value::Bool(true)) {
                return;
            }
            if begin.elapsed() > PATIENCE {
                let page = self.text("body").await;
                panic!("never: {condition} ({waited:?})\non this page:\n{page}");
            }
        }
    }

    /// Waits until an element contains a text.
    pub(crate) async fn until_says(&self, selector: &str, words: &str) {
        let (selector, words) = (json!(selector), json!(words));
        self.until(&format!("document.querySelector({selector})?.innerText.includes({words})")).await;
    }

    pub(crate) async fn click(&self, selector: &str) {
        let element = self.shown(selector).await;
        self.driver.post(&format!("{element}/click"), json!({})).await.unwrap();
    }

    /// Replaces the text of a field.
    pub(crate) async fn write(&self, selector: &str, text: &str) {
        let element = self.shown(selector).await;
        self.driver.post(&format!("{element}/clear"), json!({})).await.unwrap();
        self.driver.post(&format!("{element}/value"), json!({ "text": text })).await.unwrap();
    }

    /// Presses keys in the focused element.
    pub(crate) async fn press(&self, keys: &str) {
        let element = self.driver.get("/element/active").await.unwrap();
        let id = element.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        self.driver.post(&format!("/element/{id}/value"), json!({ "text": keys })).await.unwrap();
    }

    async fn shown(&self, selector: &str) -> String {
        let quoted = json!(selector);
        self.until(&format!("document.querySelector({quoted})?.checkVisibility()")).await;
        self.driver.element(selector).await.unwrap()
    }

    /// Sets the size of the window and the colour scheme.
    pub(crate) async fn look_like(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.driver.chromium("Emulation.setDeviceMetricsOverride", size).await;
        let features = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] });
        self.driver.chromium("Emulation.setEmulatedMedia", features).await;
    }

    /// A screenshot of the visible part, as PNG in base64.
    pub(crate) async fn picture(&self) -> String {
        self.driver.get("/screenshot").await.unwrap().as_str().unwrap().to_owned()
    }
}
