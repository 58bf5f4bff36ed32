//! Routes behind the guard and the gate, as in the gateway.

use std::{convert::Infallible, sync::Arc};

use axum::{Router, extract::DefaultBodyLimit, extract::Request, response::Response};
use lockkeeper::{
    http::{Guard, GuardSettings},
    resource::{Gate, is_protected},
};
use tower::{Service, ServiceExt as _, service_fn};

/// A service that answers every request.
pub(crate) trait Serve: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone {}

impl<S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone> Serve for S {}

/// All routes behind the guard.
pub(crate) fn guarded(router: Router, settings: &GuardSettings) -> Router {
    let guard = Arc::new(Guard::new(settings));
    let router = router.layer(DefaultBodyLimit::disable());
    Router::new().fallback(move |request: Request| {
        let (guard, router) = (Arc::clone(&guard), router.clone());
        async move { guard.answer(request, |request| answer(router, request)).await }
    })
}

/// The protected endpoints behind the gate, the others beside it.
pub(crate) fn protected(gate: Gate, endpoints: Router, others: Router) -> impl Serve {
    service_fn(move |request: Request| {
        let (gate, endpoints, others) = (gate.clone(), endpoints.clone(), others.clone());
        async move {
            if is_protected(request.uri().path()) {
                let answer = |mut request: Request, authorized| {
                    request.extensions_mut().insert(authorized);
                    answer(endpoints, request)
                };
                return Ok(gate.answer(request, answer, |_, _| async {}).await);
            }
            Ok(answer(others, request).await)
        }
    })
}

async fn answer(router: Router, request: Request) -> Response {
    router.oneshot(request).await.unwrap()
}
