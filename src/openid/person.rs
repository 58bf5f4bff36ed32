//! A person verified by a provider, and the person's rights (`UP-13`).

use serde_json::Value;

use crate::{
    model::{AssertedRights, LoginProvider, People, Rights},
    support::Timestamp,
};

/// Maximum length of a name, in characters.
const MAX_NAME: usize = 100;

/// A person who logged in at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Issuer of the provider.
    pub issuer: String,
    /// The person there: with the issuer, the person's whole identity.
    pub subject: String,
    /// Name for people. Nothing depends on it.
    pub name: String,
    /// Email address, if the provider has verified it.
    pub email: Option<String>,
    /// Groups at the provider.
    pub groups: Vec<String>,
    /// Claims in a form that rules cannot use.
    pub doubts: ClaimDoubts,
    /// Session at the provider, named when it ends (`sid`).
    pub session: Option<String>,
    /// Time of the login; `None` if a session at the provider was enough, and the provider does not say since when.
    pub logged_in: Option<Timestamp>,
}

/// A logout at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logout {
    /// Issuer of the provider.
    pub issuer: String,
    /// Id of the report, accepted once.
    pub id: String,
    /// Subject that logged out.
    pub subject: Option<String>,
    /// Session that ended.
    pub session: Option<String>,
    /// Expiry of the report.
    pub expires: Timestamp,
}

/// Claims that a provider sends in a form that rules cannot use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClaimDoubts {
    /// There is an email address, but no statement whether it is verified, as with Microsoft Entra ID.
    pub unverified_email: bool,
    /// The groups are too many for the token, which names another place for them (Microsoft Entra ID, *overage*).
    pub groups_elsewhere: bool,
}

/// Claims about a person without a login.
#[derive(Debug, PartialEq, Eq)]
pub struct RenewedClaims {
    /// Email address, if verified.
    pub email: Option<String>,
    /// Rights by the tables of the configuration.
    pub rights: AssertedRights,
}

/// The claims of a person that the gateway uses.
#[derive(Debug, Default)]
pub(super) struct PersonClaims {
    pub(super) email: Option<String>,
    pub(super) groups: Option<Vec<String>>,
    pub(super) name: Option<String>,
    pub(super) doubts: ClaimDoubts,
}

// === impl Person ===

impl Person {
    /// Rights of the person; `None` if no rule lets the person in.
    pub fn rights(&self, provider: &LoginProvider) -> Option<Rights> {
        let fitting = provider.rules.iter().filter(|rule| self.is_among(&rule.people));
        fitting.map(|rule| rule.rights.clone()).reduce(|one, other| one.union(&other))
    }

    fn is_among(&self, people: &People) -> bool {
        let People::Listed { domains, groups, subjects } = people else { return true };
        let domain = self.email.as_deref().and_then(|email| email.rsplit_once('@')).map(|(_, domain)| domain);
        domain.is_some_and(|domain| domains.iter().any(|known| known.eq_ignore_ascii_case(domain)))
            || groups.iter().any(|group| self.groups.contains(group))
            || subjects.contains(&self.subject)
    }
}

// === impl PersonClaims ===

impl PersonClaims {
    /// Reads the claims of an id token or of user information.
    pub(super) fn read(claims: &Value, provider: &LoginProvider) -> Self {
        let text = |name: &str| claims[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        // some providers write the boolean as text
        let is_verified = claims["email_verified"] == true || claims["email_verified"] == "true";
        let groups = claims.get(&provider.groups_claim).filter(|groups| !groups.is_null()).map(|groups| match groups {
            Value::String(group) => vec![group.clone()],
            Value::Array(groups) => groups.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            // Zitadel: each role with the organizations that grant it
            Value::Object(roles) => {
                let given = roles.iter().filter(|(_, by)| by.as_object().is_some_and(|by| !by.is_empty()));
                given.map(|(role, _)| role.clone()).collect()
            }
            _ => Vec::new(),
        });
        let elsewhere = &claims["_claim_names"][&provider.groups_claim];
        let doubts = ClaimDoubts {
            unverified_email: text("email").is_some() && claims["email_verified"].is_null(),
            groups_elsewhere: groups.is_none() && (!elsewhere.is_null() || claims["hasgroups"] == true),
        };
        Self { email: text("email").filter(|_| is_verified), groups, name: text("name"), doubts }
    }

    /// True if a claim needed by a rule or a page is missing.
    pub(super) fn lack(&self, provider: &LoginProvider) -> bool {
        let needs_groups = provider.rules.iter().any(|rule| match &rule.people {
            People::Listed { groups, .. } => !groups.is_empty(),
            People::Everybody => false,
        });
        self.email.is_none() || (needs_groups && self.groups.is_none())
    }

    /// Rights of the subject of an identity assertion with these claims.
    pub(super) fn rights(&self, subject: &str, provider: &LoginProvider) -> AssertedRights {
        let person = Person {
            issuer: provider.issuer.clone(),
            subject: subject.to_owned(),
            name: String::new(),
            email: self.email.clone(),
            groups: self.groups.clone().unwrap_or_default(),
            doubts: self.doubts,
            session: None,
            logged_in: None,
        };
        let asks = |lists: fn(&People) -> bool| provider.rules.iter().any(|rule| lists(&rule.people));
        let asks_for_email = asks(|people| matches!(people, People::Listed { domains, .. } if !domains.is_empty()));
        let asks_for_groups = asks(|people| matches!(people, People::Listed { groups, .. } if !groups.is_empty()));
        let rights = person.rights(provider);
        if (asks_for_email && self.email.is_none()) || (asks_for_groups && self.groups.is_none()) {
            AssertedRights::Partial(rights)
        } else {
            AssertedRights::Known(rights)
        }
    }

    /// These claims, with missing ones taken from the others.
    pub(super) fn or(self, others: Self) -> Self {
        let (email, groups) = (self.email.or(others.email), self.groups.or(others.groups));
        let doubts = ClaimDoubts {
            unverified_email: email.is_none() && (self.doubts.unverified_email || others.doubts.unverified_email),
            groups_elsewhere: groups.is_none() && (self.doubts.groups_elsewhere || others.doubts.groups_elsewhere),
        };
        Self { email, groups, name: self.name.or(others.name), doubts }
    }

    /// The name for people: a verified email address, else the person's own choice, else the subject.
    pub(super) fn display_name(&self, subject: &str) -> String {
        let name = self.email.as_deref().or(self.name.as_deref()).unwrap_or(subject);
        let clean: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        if clean.trim().is_empty() { "(no name)".to_owned() } else { clean.trim().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::model::{Access, AllowedBackends, IdentityAssertions, LoginRule, LoginSession};

    fn provider(rules: Vec<LoginRule>) -> LoginProvider {
        LoginProvider {
            name: "corp".to_owned(),
            issuer: "https://id.example".to_owned(),
            client_id: "gateway".to_owned(),
            client_secret: None,
            label: "Corp".to_owned(),
            scopes: vec!["openid".to_owned()],
            algorithms: Vec::new(),
            groups_claim: "roles".to_owned(),
            rules,
            session: LoginSession::Independent,
            trust: Duration::from_hours(7 * 24),
            identity_assertions: IdentityAssertions::Refused,
            authorize_params: Vec::new(),
        }
    }

    fn rule(lists: [&[&str]; 3], backend: &str) -> LoginRule {
        let [domains, groups, subjects] = lists.map(|list| list.iter().map(|&text| text.to_owned()).collect());
        let backends = AllowedBackends::Only([(backend.to_owned(), Access::Full)].into());
        LoginRule { people: People::Listed { domains, groups, subjects }, rights: Rights { backends, admin: false } }
    }

    fn opened(claims: &Value, provider: &LoginProvider) -> Option<Vec<String>> {
        let read = PersonClaims::read(claims, provider);
        let person = Person {
            issuer: provider.issuer.clone(),
            subject: claims["sub"].as_str().unwrap().to_owned(),
            name: String::new(),
            email: read.email,
            groups: read.groups.unwrap_or_default(),
            doubts: read.doubts,
            session: None,
            logged_in: None,
        };
        match person.rights(provider)?.backends {
            AllowedBackends::Only(backends) => Some(backends.into_keys().collect()),
            AllowedBackends::All => None,
        }
    }

    #[test]
    fn up_013_only_verified_addresses_groups_and_subjects_let_in_and_their_rights_add_up() {
        let provider = provider(vec![
            rule([&["example.com"], &[], &[]], "docs"),
            rule([&[], &["engineering"], &[]], "git"),
            rule([&[], &[], &["s-1"]], "ops"),
        ]);
        let ann = json!({ "sub": "s-1", "email": "ann@Example.com", "email_verified": true, "roles": ["engineering"] });
        assert_eq!(opened(&ann, &provider).unwrap(), ["docs", "git", "ops"]);
        assert_eq!(opened(&json!({ "sub": "x", "roles": "engineering" }), &provider).unwrap(), ["git"]);
        for stranger in [
            json!({ "sub": "S-1" }),
            json!({ "sub": "x", "email": "ann@example.com" }),
            json!({ "sub": "x", "email": "ann@example.com", "email_verified": false }),
            json!({ "sub": "x", "email": "ann@example.com.evil", "email_verified": true }),
            json!({ "sub": "x", "email": "ann@sub.example.com", "email_verified": true }),
            json!({ "sub": "x", "email": "example.com", "email_verified": true }),
            json!({ "sub": "x", "groups": ["engineering"] }),
            json!({ "sub": "x", "roles": ["Engineering"] }),
            json!({ "sub": "x", "roles": { "engineering": true } }),
        ] {
            assert_eq!(opened(&stranger, &provider), None, "{stranger}");
        }
    }

    #[test]
    fn up_013_roles_of_zitadel_are_groups_and_what_entra_leaves_out_is_known() {
        let provider = provider(vec![rule([&[], &["engineering"], &[]], "git")]);
        let zitadel = json!({ "sub": "x", "roles": { "engineering": { "2811": "corp.example" } } });
        assert_eq!(opened(&zitadel, &provider).unwrap(), ["git"]);
        assert_eq!(opened(&json!({ "sub": "x", "roles": { "engineering": {} } }), &provider), None);
        let doubts = |claims: Value| PersonClaims::read(&claims, &provider).doubts;
        let entra = json!({ "email": "ann@example.com", "_claim_names": { "roles": "src1" } });
        assert_eq!(doubts(entra), ClaimDoubts { unverified_email: true, groups_elsewhere: true });
        let certain = json!({ "email": "ann@example.com", "email_verified": false, "roles": [] });
        assert_eq!(doubts(certain), ClaimDoubts::default());
        // null is like absent
        assert_eq!(PersonClaims::read(&json!({ "roles": null }), &provider).groups, None);
    }

    #[test]
    fn a_name_for_people_is_short_and_printable() {
        let name = |claims: Value| PersonClaims::read(&claims, &provider(Vec::new())).display_name("s-1");
        assert_eq!(
            name(json!({ "email": "ann@example.com", "email_verified": "true", "name": "Ann" })),
            "ann@example.com"
        );
        assert_eq!(name(json!({ "email": "owner@example.com", "name": "Ann\u{7}\n" })), "Ann");
        assert_eq!(name(json!({})), "s-1");
        assert_eq!(name(json!({ "name": "x".repeat(500) })).len(), 100);
    }
}
