//! Unknown addresses, and methods that a page does not support.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};

use crate::failure::{Code, Failure};
use crate::guard::Here;
use crate::urls::is_local;

/// Redirects an address with an extra slash at its end. Any other unknown address is not found.
pub(crate) async fn nothing(request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let here = Here::of(&parts);
    match without_slash(&here.page).filter(|_| parts.method.is_safe()) {
        Some(page) => Redirect::permanent(&page).into_response(),
        None => Failure::nothing_at(&here.page).into_response(),
    }
}

pub(crate) async fn another_method(request: Request) -> Failure {
    let (parts, _) = request.into_parts();
    let (here, method) = (Here::of(&parts), &parts.method);
    let path = here.page.split('?').next().unwrap_or_default();
    let what = match *method {
        Method::GET => format!("{path} is not a page: it only receives forms"),
        _ => format!("{path} does not support {method}"),
    };
    let message = "Go back to the page that has the form, or start from the overview.";
    Failure::said(StatusCode::METHOD_NOT_ALLOWED, Code::NotOffered, what, message)
}

/// The address of a page without the slashes at its end. It must stay on this server, so `//host/` has none.
fn without_slash(address: &str) -> Option<String> {
    let (path, query) = address.split_once('?').map_or((address, None), |(path, query)| (path, Some(query)));
    let page = path.trim_end_matches('/');
    let is_page = page.starts_with("/t/") || page == "/login";
    let whole = query.map_or_else(|| page.to_owned(), |query| format!("{page}?{query}"));
    (is_page && page.len() < path.len() && is_local(&whole)).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::without_slash;

    #[test]
    fn only_pages_lose_their_slash() {
        assert_eq!(without_slash("/t/one/").as_deref(), Some("/t/one"));
        assert_eq!(without_slash("/t/one/tasks//?q=a/").as_deref(), Some("/t/one/tasks?q=a/"));
        assert_eq!(without_slash("/login/").as_deref(), Some("/login"));
        for other in
            ["/", "/t/", "/t/one", "//evil.example/", "//evil.example/t/x/", "/\\evil/", "/api/x/", "/nope/"]
        {
            assert_eq!(without_slash(other), None, "{other}");
        }
    }
}
