//! Round trips of what the gateway gives out and takes back: cursors, request states, keys and tokens, headers that mirror a
//! value, ids with the number of a replica. Input: a byte that selects which, and the content.
//!
//! Oracles: what was given out is read as it was; what was changed, or made up, is not.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    fuzzing::{CarriedState, ListCursors, RequestStates},
    mcp::{Payload, Revision},
    model::{BackendId, Caller, ReplicaNumber, Target, UserId},
    oauth::opaque::{is_refresh, mint_key, mint_refresh, parse_key},
    support::{Clock, ManualClock, Random, SealingKey, SeededRandom, Timestamp},
    wire::headers::{mirrored, unmirrored},
};

use super::input::Dice;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let (kind, seed) = (dice.byte(), dice.byte());
    let random = SeededRandom::new(seed.into());
    let content = dice.clone().rest();
    match kind % 6 {
        0 => sealed(content, &random, seed),
        1 => cursors(&mut dice, &random),
        2 => states(&mut dice, seed),
        3 => keys(content, &random),
        4 => headers(content),
        _ => replicas(content, seed),
    }
}

/// Contents like these.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        &b"0acontent"[..],
        b"1a\0\0\0\0\0\0\0\x07tools alice",
        b"2aserver's state",
        b"3a\x05lkk_0000000000_x",
        b"4a\xe2\x9c\x93 =?base64?",
        b"5atoken.7",
    ]
    .map(<[u8]>::to_vec)
    .into()
}

/// Changes one byte of a text to another of base64url.
fn changed(text: &str, at: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let length = bytes.len().max(1);
    if let Some(byte) = bytes.get_mut(at % length) {
        *byte = if *byte == b'B' { b'C' } else { b'B' };
    }
    String::from_utf8(bytes).unwrap_or_default()
}

fn sealed(secret: &[u8], random: &SeededRandom, seed: u8) {
    let random: &dyn Random = random;
    let (key, other) = (SealingKey::ephemeral(random), SealingKey::ephemeral(random));
    let (context, plain) = secret.split_at(secret.len() / 2);
    let text = key.seal_text(plain, context, random).expect("a sealed text");
    assert_eq!(key.open_text(&text, context).expect("what was sealed").as_slice(), plain);
    assert!(other.open_text(&text, context).is_err());
    assert!(key.open_text(&text, &[context, &[seed]].concat()).is_err());
    assert!(key.open_text(&changed(&text, seed.into()), context).is_err());
    assert!(key.open(secret, context).is_err());
}

fn cursors(dice: &mut Dice<'_>, random: &SeededRandom) {
    let position = u64::from_be_bytes([0; 8].map(|_: u8| dice.byte()));
    let (at, setting) = (dice.byte(), dice.clone().rest());
    let cursors = ListCursors::new(random);
    let cursor = cursors.seal(position, setting, random);
    assert_eq!(cursors.open(&cursor, setting), Ok(position));
    assert!(cursors.open(&cursor, &[setting, b"x"].concat()).is_err());
    assert!(cursors.open(&changed(&cursor, at.into()), setting).is_err());
    assert!(cursors.open(&String::from_utf8_lossy(setting), setting).is_err());
}

fn states(dice: &mut Dice<'_>, seed: u8) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_seconds(1_000)));
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed.into()));
    let clocked: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let states = RequestStates::new([seed; 32], i64::from(seed % 3), random, clocked, Duration::from_mins(1));
    let (at, is_waiting) = (dice.byte(), dice.flips());
    let content = String::from_utf8_lossy(dice.clone().rest()).into_owned();
    let state = if is_waiting {
        CarriedState::Waiting([at; 8], [seed; 16])
    } else {
        CarriedState::OfServer(content.clone(), (at % 2 == 0).then(|| BackendId::parse("b1").expect("a name")))
    };
    let caller = |name: &str| Caller { user: UserId::new(name), ..Caller::local() };
    let params =
        |name: &str| Payload::new(Revision::NEWEST, format!(r#"{{"name":"{name}","requestState":"x"}}"#).into());
    let (alice, bob) = (caller("alice"), caller("bob"));
    let (merged, single) = (Target::Merged, Target::Backend(BackendId::parse("b1").expect("a name")));
    let Some(text) = states.seal(&state, &alice, &merged, &params("t")) else {
        assert!(content.len() > 32 * 1024, "{} bytes", content.len());
        return;
    };
    assert_eq!(states.open(&text, &alice, &merged, &params("t")), Some(state));
    let (token, _) = ReplicaNumber::unmark(&text);
    let forged = changed(token, usize::from(at)) + &text[token.len()..];
    assert!(forged == text || states.open(&forged, &alice, &merged, &params("t")).is_none(), "{forged}");
    assert!(states.open(&text, &bob, &merged, &params("t")).is_none());
    assert!(states.open(&text, &alice, &single, &params("t")).is_none());
    assert!(states.open(&text, &alice, &merged, &params("u")).is_none());
    assert!(states.open(&content, &alice, &merged, &params("t")).is_none());
    clock.advance(Duration::from_secs(61));
    assert!(states.open(&text, &alice, &merged, &params("t")).is_none());
}

fn keys(content: &[u8], random: &SeededRandom) {
    let (text, made) = mint_key(random);
    let read = parse_key(text.expose()).expect("a key");
    assert_eq!((read.id, read.secret.expose()), (made.id, made.secret.expose()));
    let at = content.first().copied().unwrap_or_default();
    assert!(parse_key(&changed(text.expose(), at.into())).is_none());
    let refresh = mint_refresh(random);
    assert!(is_refresh(refresh.expose()) && parse_key(refresh.expose()).is_none() && !is_refresh(text.expose()));
    let Ok(made_up) = std::str::from_utf8(content) else { return };
    if let Some(key) = parse_key(made_up) {
        let length = "lkk_".len() + key.id.as_str().len() + 1 + key.secret.expose().len() + 1 + 6;
        assert_eq!(made_up.len(), length, "{made_up}");
    }
}

fn headers(content: &[u8]) {
    let Ok(value) = std::str::from_utf8(content) else { return };
    let header = mirrored(value);
    let text = header.to_str().expect("a header of text");
    assert_eq!(unmirrored(text).as_deref(), Some(value), "{text}");
    if let Some(read) = unmirrored(value) {
        assert_eq!(unmirrored(mirrored(&read).to_str().expect("text")).as_deref(), Some(&*read));
    }
}

fn replicas(content: &[u8], seed: u8) {
    let Ok(text) = std::str::from_utf8(content) else { return };
    let (token, named) = ReplicaNumber::unmark(text);
    assert_eq!(named.mark(token.to_owned()), text, "{text}");
    let number = ReplicaNumber::new(i64::from(seed) + 1);
    let marked = number.mark(text.to_owned());
    assert_eq!(ReplicaNumber::unmark(&marked), (text, number));
}
