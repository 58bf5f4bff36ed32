//! Properties of all messages: round trips are lossless, and valid messages stay valid.

use std::cell::RefCell;

use bytes::Bytes;
use lockkeeper::mcp::{
    Capabilities, ClientInfo, Facts, Method, Payload, Revision,
    translate::{Cause, Kind, Profile},
};
use proptest::{
    collection::vec,
    prelude::{ProptestConfig, any},
    proptest,
    test_runner::TestCaseError,
};
use serde_json::Value;

use super::{
    payload,
    samples::{Dice, METHODS, Vocabulary},
    schemas::Schemas,
    value,
};

fn client() -> ClientInfo {
    ClientInfo {
        revision: Revision::V2025_11_25,
        implementation: Bytes::from_static(br#"{"name":"c","version":"1"}"#),
        capabilities: Capabilities::none(),
    }
}

fn given(revision: Revision, json: &Value) -> Payload {
    if json.is_null() { Payload::absent(revision) } else { payload(revision, json) }
}

/// A payload after translation to another revision and back.
fn there_and_back(kind: Kind, method: &Method, from: Revision, over: Revision, json: &Value) -> Value {
    let client = client();
    let facts = Facts { client: Some(&client), ..Facts::new(kind, method) };
    let there = given(from, json).into_revision(over, &facts).unwrap();
    value(&there.into_revision(from, &facts).unwrap())
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), TestCaseError> {
    if holds { Ok(()) } else { Err(TestCaseError::fail(what())) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn data_survives_every_round_trip(bytes in vec(any::<u8>(), 0..120)) {
        for pair in Revision::ALL.windows(2) {
            for (from, over) in [(pair[0], pair[1]), (pair[1], pair[0])] {
                for (kind, method) in METHODS {
                    let Some(json) = Dice::new(&bytes, from, Vocabulary::Data).payload(*kind, method) else { continue };
                    if *method == Method::Elicit && over < Revision::V2025_06_18 {
                        continue;
                    }
                    let back = there_and_back(*kind, method, from, over, &json);
                    check(back == json, || format!("{method} {from} over {over}\n{json}\n{back}"))?;
                }
            }
        }
    }

    #[test]
    fn a_valid_message_arrives_valid_or_is_refused(bytes in vec(any::<u8>(), 0..120)) {
        thread_local!(static SCHEMAS: RefCell<Schemas> = RefCell::default());
        let client = client();
        for from in Revision::ALL {
            for (kind, method) in METHODS {
                let Some(json) = Dice::new(&bytes, from, Vocabulary::Whole).payload(*kind, method) else { continue };
                let valid = |revision, json: &Value| {
                    let faults = SCHEMAS.with_borrow_mut(|schemas| schemas.faults(revision, *kind, method, json));
                    check(faults.is_empty(), || format!("{method} {from} to {revision}: {faults}\n{json}"))
                };
                valid(from, &json)?;
                for (to, profile) in Revision::ALL.into_iter().flat_map(|to| [(to, Profile::Faithful), (to, Profile::Strict)]) {
                    let facts = Facts { client: Some(&client), profile, ..Facts::new(*kind, method) };
                    match given(from, &json).into_revision(to, &facts) {
                        Ok(carried) => valid(to, &value(&carried))?,
                        Err(refused) => check(!matches!(refused.cause, Cause::Result), || format!("{json}\n{refused}"))?,
                    }
                }
            }
        }
    }
}
