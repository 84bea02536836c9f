//! What handlers take from a request. What cannot be read is refused in our own words, as a page or as JSON.

use std::error::Error;
use std::io;

use axum::extract::rejection::FormRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::Ui;
use crate::failure::{Code, Failure};
use crate::guard::Here;

/// The named parts of the path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Ui> for Path<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Self, Failure> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, ui).await;
        // A number that is none, or bytes that are no text: no page has such an address.
        path.map(|path| Self(path.0)).map_err(|_| Failure::nothing_at(&Here::of(parts).page))
    }
}

/// What stands behind the question mark.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Ui> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Self, Failure> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, ui).await;
        query.map(|query| Self(query.0)).map_err(|rejection| {
            let why = rejection.source().map(ToString::to_string).unwrap_or_default();
            let what = format!("what follows the question mark in the address cannot be read: {why}");
            Failure::said(StatusCode::BAD_REQUEST, Code::InvalidValue, what, "Correct the address.")
        })
    }
}

/// A form that was sent.
#[derive(Debug)]
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Ui> for Form<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, ui: &Ui) -> Result<Self, Failure> {
        let form = axum::Form::<T>::from_request(request, ui).await;
        form.map(|form| Self(form.0)).map_err(refused)
    }
}

fn refused(rejection: FormRejection) -> Failure {
    let status = rejection.status();
    if timed_out(&rejection) {
        let what = "the form came too slowly";
        return Failure::said(StatusCode::REQUEST_TIMEOUT, Code::RequestTooSlow, what, "Send it again.");
    }
    match status {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let what = "forms are sent as application/x-www-form-urlencoded";
            Failure::said(
                status,
                Code::InvalidPayload,
                what,
                "Send it as a browser does, or call the REST API.",
            )
        }
        StatusCode::PAYLOAD_TOO_LARGE => {
            let what = "the form is larger than 4 MiB";
            Failure::said(
                status,
                Code::PayloadTooLarge,
                what,
                "Send less, or a reference to where it is kept.",
            )
        }
        _ => {
            let what = "the form could not be read to its end";
            Failure::said(StatusCode::BAD_REQUEST, Code::InvalidPayload, what, "Send it again.")
        }
    }
}

/// Whether the body was cut because it came too slowly.
fn timed_out(error: &(dyn Error + 'static)) -> bool {
    let cause = error.downcast_ref::<io::Error>().map(io::Error::kind);
    cause == Some(io::ErrorKind::TimedOut) || error.source().is_some_and(timed_out)
}
