//! Extractors of handlers. Unreadable input gets an error as a page or as JSON.

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

/// The parameters of the path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Ui> for Path<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Self, Failure> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, ui).await;
        // The path has an invalid number or is not valid UTF-8, so no page has this address.
        path.map(|path| Self(path.0)).map_err(|_| Failure::nothing_at(&Here::of(parts).page))
    }
}

/// The query string of the URL.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Ui> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Self, Failure> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, ui).await;
        query.map(|query| Self(query.0)).map_err(|rejection| {
            let why = rejection.source().map(ToString::to_string).unwrap_or_default();
            let what = format!("cannot read the query string of the address: {why}");
            Failure::said(StatusCode::BAD_REQUEST, Code::InvalidValue, what, "Correct the address.")
        })
    }
}

/// A submitted form.
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
        let what = "the form arrived too slowly";
        return Failure::said(StatusCode::REQUEST_TIMEOUT, Code::RequestTooSlow, what, "Send it again.");
    }
    match status {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let what = "forms must be sent as application/x-www-form-urlencoded";
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
                "Send less, or store the data elsewhere and send a reference.",
            )
        }
        _ => {
            let what = "cannot read the whole form";
            Failure::said(StatusCode::BAD_REQUEST, Code::InvalidPayload, what, "Send it again.")
        }
    }
}

/// Whether the body was aborted because it arrived too slowly.
fn timed_out(error: &(dyn Error + 'static)) -> bool {
    let cause = error.downcast_ref::<io::Error>().map(io::Error::kind);
    cause == Some(io::ErrorKind::TimedOut) || error.source().is_some_and(timed_out)
}
