//! Refusals as `application/problem+json` (RFC 9457), for callers whose `Accept` asks for it.

use axum::Json;
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::RestError;

pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// A refusal in the form of RFC 9457.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProblemDetails {
    /// The page of the code.
    #[serde(rename = "type")]
    pub(super) page: String,
    /// The kind of refusal, the same for every refusal with this code.
    pub(super) title: String,
    pub(super) status: u16,
    /// The problem with this request.
    pub(super) detail: String,
    /// A stable code, such as `FLV0031`.
    pub(super) code: String,
    /// As in a plain error: the same text as `detail`, or a constant such as `MONTHLY_QUOTA_EXCEEDED`.
    pub(super) error: String,
    /// What to do. If `error` is a constant, the same text as `detail`.
    pub(super) message: String,
    /// The quota that is used up, such as `monthly_workflow_runs`.
    #[serde(rename = "quotaType", skip_serializing_if = "Option::is_none")]
    pub(super) quota_type: Option<&'static str>,
    /// The limit of that quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<i64>,
    /// The current use of that quota, if it is a count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<i64>,
}

/// Converts a refusal to the requested form. Status and headers stay unchanged.
pub(super) async fn answer(request: Request, next: Next) -> Response {
    let wanted = is_wanted(request.headers());
    let mut response = next.run(request).await;
    let error = response.extensions_mut().remove::<RestError>().filter(|_| wanted);
    let Some(error) = error else { return response };
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    Response::from_parts(parts, Json(error.problem()).into_response().into_body())
}

/// Whether `Accept` names the problem type and does not prefer plain JSON. A wildcard does not count.
fn is_wanted(headers: &HeaderMap) -> bool {
    let named: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let named = named.join(",");
    let weight = |wanted: &str| named.split(',').filter_map(|range| weight_of(range, wanted)).max();
    let problem = weight(PROBLEM_JSON).unwrap_or(0);
    problem > 0 && problem >= weight("application/json").unwrap_or(0)
}

/// The weight in thousandths. `None` if the range is not exactly the wanted type.
fn weight_of(range: &str, wanted: &str) -> Option<u32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(wanted) {
        return None;
    }
    let given = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let given: f32 = given.map_or(1.0, |text| text.trim().parse().unwrap_or(0.0));
    // A cast from a float saturates.
    Some((given.clamp(0.0, 1.0) * 1_000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_for_those_who_name_them() {
        let cases = [
            ("application/problem+json", true),
            ("Application/Problem+JSON; q=0.5", true),
            ("application/json, application/problem+json", true),
            ("application/json;q=0.9,application/problem+json;q=1.0", true),
            ("application/json, application/problem+json;q=0.5", false),
            ("application/problem+json;q=0", false),
            ("application/problem+json;q=nonsense", false),
            ("application/json", false),
            ("*/*", false),
            ("", false),
        ];
        for (accept, wanted) in cases {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(is_wanted(&headers), wanted, "{accept:?}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }
}
