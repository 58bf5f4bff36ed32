//! Extractor of a submitted form (`OA-30`).

use axum::{
    Form,
    body::HttpBody as _,
    extract::{FromRequest, Request},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use serde::de::DeserializeOwned;

/// Fields of a form. A request without a body is an empty form, regardless of its `Content-Type`.
pub(super) struct PostedForm<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for PostedForm<T> {
    type Rejection = Response;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, Response> {
        if request.body().is_end_stream() {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            request.headers_mut().insert(header::CONTENT_TYPE, form);
        }
        let form = Form::from_request(request, state).await;
        form.map(|Form(fields)| Self(fields)).map_err(IntoResponse::into_response)
    }
}
