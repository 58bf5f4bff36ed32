//! The flow of a client with a published OAuth library.

use std::{future::Future, pin::Pin};

use axum::{Router, body::Body};
use oauth2::{
    AsyncHttpClient, AuthUrl, AuthorizationCode, ClientId, CsrfToken, HttpRequest, HttpResponse, PkceCodeChallenge,
    RedirectUrl, RefreshToken, Scope, TokenResponse as _, TokenUrl, basic::BasicClient,
};

use crate::support::oauth::{Authority, CALLBACK, HOME, parameter, send};

/// Sends the library's requests through the router.
struct InMemory(Router);

impl<'c> AsyncHttpClient<'c> for InMemory {
    type Error = http::Error;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, Self::Error>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let answer = send(&self.0, request.map(Body::from)).await;
            let mut response = http::Response::builder().status(answer.status);
            if let Some(headers) = response.headers_mut() {
                *headers = answer.headers;
            }
            response.body(answer.body.into_bytes())
        })
    }
}

#[tokio::test]
async fn a_published_library_walks_the_whole_flow() {
    let authority = Authority::new().await;
    let metadata = authority.get("/.well-known/oauth-authorization-server").await.json();
    let endpoint = |name: &str| metadata[name].as_str().unwrap().to_owned();
    let client = BasicClient::new(ClientId::new(authority.client().await))
        .set_auth_uri(AuthUrl::new(endpoint("authorization_endpoint")).unwrap())
        .set_token_uri(TokenUrl::new(endpoint("token_endpoint")).unwrap())
        .set_redirect_uri(RedirectUrl::new(CALLBACK.to_owned()).unwrap());
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let (url, state) = client
        .authorize_url(CsrfToken::new_random)
        .add_scope(Scope::new("mcp:use".to_owned()))
        .add_extra_param("resource", "https://gw.example/mcp")
        .set_pkce_challenge(challenge)
        .url();
    let location = authority.approve(url.query().unwrap()).await.location;
    assert_eq!(parameter(&location, "state").as_ref(), Some(state.secret()));
    let http = InMemory(authority.router.clone());
    let code = AuthorizationCode::new(parameter(&location, "code").unwrap());
    let tokens = client.exchange_code(code).set_pkce_verifier(verifier).request_async(&http).await.unwrap();
    assert_eq!(tokens.expires_in().unwrap().as_secs(), 3600);
    let admitted = authority.oauth.verify(tokens.access_token().secret(), HOME).await.unwrap();
    assert_eq!(admitted.caller.user, authority.holder.user);
    let refresh = RefreshToken::new(tokens.refresh_token().unwrap().secret().clone());
    let again = client.exchange_refresh_token(&refresh).request_async(&http).await.unwrap();
    assert!(authority.oauth.verify(again.access_token().secret(), HOME).await.is_ok());
    assert_ne!(again.refresh_token().unwrap().secret(), refresh.secret());
}
