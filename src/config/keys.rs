//! Scalar keys of a section, read according to their declarations.

use std::{cell::RefCell, time::Duration};

use super::section::Section;
use crate::model::config_key::{ConfigKey, DurationBound, KeyReading};

/// Reads these keys of a section over the defaults; reports invalid values and keeps their defaults. Also returns the
/// names of the keys that were set.
pub(super) fn read<S: 'static>(
    section: &mut Section<'_>,
    keys: impl IntoIterator<Item = &'static ConfigKey<S>>,
    defaults: S,
) -> (S, Vec<&'static str>) {
    let values = RefCell::new(defaults);
    let given = keys.into_iter().filter(|key| read_one(section, key, &values).is_some()).map(|key| key.name).collect();
    (values.into_inner(), given)
}

/// The words of a choice, for its row.
pub(super) const fn words<T, const N: usize>(choices: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut index = 0;
    while index < N {
        words[index] = choices[index].0;
        index += 1;
    }
    words
}

/// Reads one key into its field; `None` if it is absent or invalid.
fn read_one<S>(section: &mut Section<'_>, key: &'static ConfigKey<S>, values: &RefCell<S>) -> Option<()> {
    let name = key.name;
    match key.reading {
        KeyReading::Duration(least, most, set) => {
            let most = match most {
                DurationBound::Fixed(most) => most,
                DurationBound::Key(_) => Duration::MAX,
            };
            section.duration(name, least..=most).map(|value| set(&mut values.borrow_mut(), value))
        }
        KeyReading::Count(least, most, set) => {
            section.count(name, least..=most).map(|value| set(&mut values.borrow_mut(), value))
        }
        KeyReading::Size(least, most, set) => {
            section.size(name, least..=most).map(|value| set(&mut values.borrow_mut(), value))
        }
        KeyReading::Flag(set) => section.flag(name).map(|flag| set(&mut values.borrow_mut(), flag)),
        KeyReading::Choice(words, setters) => {
            let choices: Vec<_> = words.iter().copied().zip(setters).collect();
            section.choice(name, &choices).map(|set| set(&mut values.borrow_mut()))
        }
        KeyReading::Text(set) => section.parsed(name, |text| set(&mut values.borrow_mut(), text)),
        KeyReading::Texts(clear, push) => {
            if section.has(name) {
                clear(&mut values.borrow_mut());
            }
            section.parsed_list(name, |text| push(&mut values.borrow_mut(), text)).map(|_: Vec<()>| ())
        }
        KeyReading::TextOrTexts(clear, add) => {
            if section.has(name) {
                clear(&mut values.borrow_mut());
            }
            section.parsed_text_or_list(name, |text| add(&mut values.borrow_mut(), text)).map(|_: Vec<()>| ())
        }
        KeyReading::Patterns(set) => section.patterns(name).map(|patterns| set(&mut values.borrow_mut(), patterns)),
        KeyReading::Shape(_) => None,
    }
}
