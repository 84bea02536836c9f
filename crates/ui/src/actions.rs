//! Actions of visitors: each form becomes one REST call. A script that sends a form gets JSON; a plain browser is
//! redirected to the page that shows the result.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use flovyn_rest_types::{Retried, Started, Task, Tenant};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::Ui;
use crate::extract::{Form, Path};
use crate::failure::Failure;
use crate::session::hex;
use crate::urls::encode;
use crate::visitor::Visitor;
use crate::wish::Wish;

/// A submitted form from a page of this visitor's session.
#[derive(Debug)]
pub(crate) struct Filled {
    fields: BTreeMap<String, String>,
    by_script: bool,
}

impl FromRequest<Ui> for Filled {
    type Rejection = Failure;

    async fn from_request(request: Request, ui: &Ui) -> Result<Self, Failure> {
        let session =
            request.extensions().get::<crate::session::Session>().cloned().ok_or(Failure::SignIn)?;
        let by_script = Wish::of(request.headers()) == Wish::Part;
        let Form(fields) = Form::<BTreeMap<String, String>>::from_request(request, ui).await?;
        if !fields.get("form_token").is_some_and(|token| session.knows(token)) {
            return Err(Failure::Forged);
        }
        Ok(Self { fields, by_script })
    }
}

impl Filled {
    /// The text of a field. `None` if it is blank.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// The idempotency key of this form with this content. It is the same if the form is sent again unchanged. `None`
    /// if the form does not come from a page.
    fn key(&self) -> Option<String> {
        self.text("form_key")?;
        let mut hash = Sha256::new();
        for (name, value) in self.fields.iter().filter(|(name, _)| *name != "form_token") {
            hash.update(format!("{}:{name}{}:{value}", name.len(), value.len()));
        }
        Some(format!("form-{}", hex(&hash.finalize()[..16])))
    }

    /// The JSON of a field, unchanged.
    fn document(&self, name: &str, label: &str) -> Result<Option<Box<RawValue>>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let read = serde_json::from_str(text);
        read.map(Some).map_err(|error| Failure::wrong(format!("{label} is not JSON: {error}")))
    }

    /// The answer: the page to go to, or the error.
    fn answer(&self, done: Result<String, Failure>) -> Response {
        match (done, self.by_script) {
            (Ok(page), true) => Json(json!({ "page": page })).into_response(),
            (Ok(page), false) => Redirect::to(&page).into_response(),
            (Err(failure), _) => failure.into_response(),
        }
    }
}

/// A JSON object of these fields. Values are inserted unchanged.
fn object(fields: impl IntoIterator<Item = (&'static str, Option<Box<RawValue>>)>) -> String {
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let fields: Vec<String> = fields.map(|(name, value)| format!("\"{name}\":{}", value.get())).collect();
    format!("{{{}}}", fields.join(","))
}

fn raw(value: &Value) -> Option<Box<RawValue>> {
    RawValue::from_string(value.to_string()).ok()
}

/// Reads labels in the form `name:value, name:value`.
fn labels(text: &str) -> Result<Value, Failure> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let read: Option<BTreeMap<String, String>> = pairs.map(pair).collect();
    read.map(|labels| json!(labels))
        .ok_or_else(|| Failure::wrong("labels must have the form name:value, name:value"))
}

pub(crate) async fn start(visitor: Visitor, filled: Filled) -> Response {
    let done = async {
        let kind = filled.text("kind").ok_or_else(|| Failure::wrong("kind is missing"))?;
        let text = |name| filled.text(name).and_then(|text| raw(&json!(text)));
        let labels = filled.text("labels").map(labels).transpose()?;
        let body = object([
            ("input", filled.document("input", "input")?),
            ("taskQueue", text("task_queue")),
            ("idempotencyKey", text("idempotency_key")),
            ("labels", labels.as_ref().and_then(raw)),
        ]);
        let path = visitor.api(&format!("/workflows/{}/trigger", encode(kind)));
        // A key in the body takes precedence.
        let started: Started = visitor.rest().post_once(&path, body, filled.key().as_deref()).await?;
        Ok(visitor.page(&format!("/executions/{}", started.workflow_execution_id)))
    };
    filled.answer(done.await)
}

type Named = Path<(String, String)>;

async fn on_execution(visitor: &Visitor, name: &str, action: &str, body: String) -> Result<String, Failure> {
    let path = visitor.api(&format!("/workflow-executions/{}/{action}", encode(name)));
    visitor.rest().post::<Value>(&path, body).await?;
    Ok(visitor.page(&format!("/executions/{}", encode(name))))
}

pub(crate) async fn cancel(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    let body = json!({ "reason": filled.text("reason").unwrap_or_default() }).to_string();
    filled.answer(on_execution(&visitor, &name, "cancel", body).await)
}

pub(crate) async fn terminate(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    let body = json!({ "reason": filled.text("reason").unwrap_or_default() }).to_string();
    filled.answer(on_execution(&visitor, &name, "terminate", body).await)
}

pub(crate) async fn release(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    filled.answer(on_execution(&visitor, &name, "release", String::new()).await)
}

pub(crate) async fn signal(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    let signal = json!(filled.text("name").unwrap_or_default());
    let done = match filled.document("value", "value") {
        Err(failure) => Err(failure),
        Ok(value) => {
            let body = object([("name", raw(&signal)), ("value", value)]);
            // The key includes the execution and the visitor, so that no visitor receives the outcome of another's
            // form.
            let whose = format!("{} {}", visitor.page(&format!("/executions/{name}")), visitor.me.subject);
            let key = filled.key().map(|key| format!("{key} {whose}"));
            let once = visitor.ui.once.clone();
            let sent = async move { on_execution(&visitor, &name, "signal", body).await };
            match key {
                Some(key) => once.run(key, sent).await,
                None => sent.await,
            }
        }
    };
    filled.answer(done)
}

pub(crate) async fn retry(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    let done = async {
        let path = visitor.api(&format!("/workflow-executions/{}/retry", encode(&name)));
        let retried: Retried =
            visitor.rest().post_once(&path, String::new(), filled.key().as_deref()).await?;
        Ok(visitor.page(&format!("/executions/{}", retried.workflow_execution_id)))
    };
    filled.answer(done.await)
}

type Promise = Path<(String, String, String)>;

async fn on_promise(visitor: &Visitor, at: &Promise, action: &str, body: String) -> Result<String, Failure> {
    let Path((_, name, promise)) = at;
    let path = visitor.api(&format!("/promises/{}/{action}", encode(promise)));
    visitor.rest().send(Method::POST, &path, Some(body)).await?;
    Ok(visitor.page(&format!("/executions/{}", encode(name))))
}

pub(crate) async fn resolve(visitor: Visitor, at: Promise, filled: Filled) -> Response {
    let done = async {
        let body = object([("value", filled.document("value", "value")?)]);
        on_promise(&visitor, &at, "resolve", body).await
    };
    filled.answer(done.await)
}

pub(crate) async fn reject(visitor: Visitor, at: Promise, filled: Filled) -> Response {
    let body = json!({ "error": filled.text("error").unwrap_or_default() }).to_string();
    filled.answer(on_promise(&visitor, &at, "reject", body).await)
}

pub(crate) async fn create_task(visitor: Visitor, filled: Filled) -> Response {
    let done = async {
        let text = |name| filled.text(name).and_then(|text| raw(&json!(text)));
        let retries = filled.text("max_retries").map(|text| {
            text.parse::<i64>()
                .map_err(|_| Failure::wrong("the maximum of attempts must be a number such as 3"))
        });
        let body = object([
            ("task_type", text("task_type")),
            ("input", filled.document("input", "input")?),
            ("queue", text("queue")),
            ("max_retries", retries.transpose()?.and_then(|number| raw(&json!(number)))),
        ]);
        let task: Task =
            visitor.rest().post_once(&visitor.api("/tasks"), body, filled.key().as_deref()).await?;
        Ok(visitor.page(&format!("/tasks/{}", task.id)))
    };
    filled.answer(done.await)
}

/// Sends a call without a body, then goes to a page.
async fn simple(visitor: &Visitor, method: Method, path: &str, page: &str) -> Result<String, Failure> {
    visitor.rest().send(method, &visitor.api(path), None).await?;
    Ok(visitor.page(page))
}

pub(crate) async fn retry_task(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    let task = format!("/tasks/{}", encode(&name));
    filled.answer(simple(&visitor, Method::POST, &format!("{task}/retry"), &task).await)
}

pub(crate) async fn cancel_task(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    let task = format!("/tasks/{}", encode(&name));
    filled.answer(simple(&visitor, Method::DELETE, &task, &task).await)
}

pub(crate) async fn pause(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    let path = format!("/queues/{}/pause", encode(&name));
    filled.answer(simple(&visitor, Method::POST, &path, "/queues").await)
}

pub(crate) async fn resume(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    let path = format!("/queues/{}/resume", encode(&name));
    filled.answer(simple(&visitor, Method::POST, &path, "/queues").await)
}

pub(crate) async fn create_tenant(visitor: Visitor, filled: Filled) -> Response {
    let done = async {
        let text = |name| filled.text(name).and_then(|text| raw(&json!(text)));
        let slug = text("slug").ok_or_else(|| Failure::wrong("slug is missing"))?;
        let body = object([("slug", Some(slug)), ("name", text("name"))]);
        let tenant: Tenant = visitor.rest().post("/api/tenants", body).await?;
        Ok(format!("/t/{}", encode(&tenant.slug)))
    };
    filled.answer(done.await)
}

pub(crate) async fn revoke_token(visitor: Visitor, Path((_, name)): Named, filled: Filled) -> Response {
    let path = format!("/worker-tokens/{}", encode(&name));
    filled.answer(simple(&visitor, Method::DELETE, &path, "/access").await)
}
