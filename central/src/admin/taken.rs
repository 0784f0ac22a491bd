//! What a handler takes from a request. What does not fit is refused in the words and the shape of every other refusal.

use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::Bytes;
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::refused::Refused;

/// The whole body.
#[derive(Debug)]
pub(super) struct Whole(pub(super) Bytes);

/// The parameters behind the path, in order.
#[derive(Debug)]
pub(super) struct Parameters(pub(super) Vec<(String, String)>);

/// What the path names.
#[derive(Debug)]
pub(super) struct Named<T>(pub(super) T);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let body = Bytes::from_request(request, state).await;
        body.map(Self).map_err(|error: BytesRejection| Refused::unfit(error.status(), error.body_text()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let query = Query::from_request_parts(parts, state).await;
        query
            .map(|Query(parameters)| Self(parameters))
            .map_err(|error: QueryRejection| Refused::unfit(error.status(), error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let named = Path::from_request_parts(parts, state).await;
        named
            .map(|Path(named)| Self(named))
            .map_err(|error: PathRejection| Refused::unfit(error.status(), error.body_text()))
    }
}
