//! A visitor with a minimal browser: cookies and forms only.

use axum::http::HeaderMap;

use crate::http::{Answer, Http};
use crate::world::World;

/// Every page of tenant one that needs no data.
pub(crate) const PAGES: &[&str] = &[
    "/t/one",
    "/t/one/executions",
    "/t/one/tasks",
    "/t/one/queues",
    "/t/one/workers",
    "/t/one/access",
    "/t/one/audit",
];

/// What browsers accept when they navigate.
const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8";

#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) http: Http,
    pub(crate) cookie: String,
}

impl Visitor {
    /// A visitor who has not signed in.
    pub(crate) fn stranger(http: &Http) -> Self {
        Self { http: http.clone(), cookie: String::new() }
    }

    /// Signs in with a credential.
    pub(crate) async fn with(world: &World, credential: &str) -> Self {
        let mut visitor = Self::stranger(&world.http);
        let answer = visitor.post("/login", &[("credential", credential)]).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        visitor.cookie = cookie(&answer.headers).expect("a session");
        visitor
    }

    /// An administrator of tenant one.
    pub(crate) async fn admin(world: &World) -> Self {
        Self::with(world, &world.admin).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], String::new()).await
    }

    /// A page that must exist.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/html"), "{path}");
        answer.text
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_with(path, fields, &[]).await
    }

    pub(crate) async fn post_with(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Answer {
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        self.send("POST", path, headers, pairs.join("&")).await
    }

    /// Fills in a form of a page, with its token.
    pub(crate) async fn fill(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.form_token().await;
        let mut all = vec![("form_token", token.as_str())];
        all.extend_from_slice(fields);
        self.post(path, &all).await
    }

    /// A form of a page, filled in: its hidden fields, and these fields.
    pub(crate) async fn form(
        &self,
        page: &str,
        action: &str,
        fields: &[(&str, &str)],
    ) -> Vec<(String, String)> {
        let html = self.page(page).await;
        let (_, form) = html.split_once(&format!("action=\"{action}\" data-action")).expect("the form");
        let form = form.split("</form>").next().unwrap();
        let hidden = form.split("<input type=\"hidden\" name=\"").skip(1).map(|input| {
            let mut parts = input.split('"');
            (parts.next().unwrap().to_owned(), parts.nth(1).unwrap().to_owned())
        });
        hidden.chain(fields.iter().map(|(name, value)| ((*name).into(), (*value).into()))).collect()
    }

    /// Fills in a form, and returns the page that it leads to.
    pub(crate) async fn done(&self, path: &str, fields: &[(&str, &str)]) -> String {
        let answer = self.fill(path, fields).await;
        assert_eq!(answer.status, 303, "{path}: {}", answer.text);
        answer.headers["location"].to_str().unwrap().to_owned()
    }

    /// The token that the forms of this session contain.
    pub(crate) async fn form_token(&self) -> String {
        let page = self.page("/t/one/workers").await;
        let (_, after) = page.split_once("name=\"form_token\" value=\"").expect("a form");
        after.split('"').next().unwrap().to_owned()
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Answer {
        let mut all = headers.to_vec();
        if !all.iter().any(|(name, _)| *name == "accept") {
            all.push(("accept", ACCEPT));
        }
        if !self.cookie.is_empty() {
            all.push(("cookie", &self.cookie));
        }
        if method == "POST" && !all.iter().any(|(name, _)| *name == "content-type") {
            all.push(("content-type", "application/x-www-form-urlencoded"));
        }
        self.http.send(method, path, &all, body).await
    }
}

/// The name and the value of the cookie that is set.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<String> {
    let line = headers.get("set-cookie")?.to_str().unwrap();
    line.split(';').next().map(str::to_owned)
}

fn encode(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    let one = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}
