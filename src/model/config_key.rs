//! Declaration of configuration keys, next to the values they set: documentation, type, default, bounds, and whether a
//! change takes effect on reload. Knows no file; `config` reads the keys and lists their rows.

use std::time::Duration;

/// A key of the table that the values `S` are read from.
pub struct ConfigKey<S: 'static> {
    /// Name of the key, and of its field.
    pub name: &'static str,
    /// Lines of its documentation, as in [`KeyRow`].
    pub docs: &'static [&'static str],
    /// Default.
    pub default: KeyDefault,
    /// Effect of a change.
    pub takes_effect: TakesEffect,
    /// Type, bounds, and how a value is set.
    pub reading: KeyReading<S>,
    /// True if both have the same value.
    pub is_same: fn(&S, &S) -> bool,
    /// Copies the value of the second to the first.
    pub copy: fn(&mut S, &S),
}

/// Effect of a changed key on a running gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakesEffect {
    /// A reload applies it.
    OnReload,
    /// It waits for the next start.
    AtRestart,
}

/// Type of a key with its bounds, and the setter of its field.
pub enum KeyReading<S: 'static> {
    /// A duration as text, of at least this, and at most this.
    Duration(Duration, DurationBound, fn(&mut S, Duration)),
    /// A number, from the least to the greatest.
    Count(usize, usize, fn(&mut S, usize)),
    /// A size in bytes, from the least to the greatest.
    Size(usize, usize, fn(&mut S, usize)),
    /// True or false.
    Flag(fn(&mut S, bool)),
    /// One of these words, each with what sets it.
    Choice(&'static [&'static str], &'static [fn(&mut S)]),
    /// A text; the setter says what is wrong with it.
    Text(fn(&mut S, &str) -> Result<(), String>),
    /// A list of texts, empty by default. The function adds one, or says what is wrong with it.
    Texts(fn(&mut S, &str) -> Result<(), String>),
    /// Several keys that choose a shape together: a function of the section reads them.
    Shape(&'static [KeyRow]),
}

/// Upper bound of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationBound {
    /// This one.
    Fixed(Duration),
    /// The value of another key, which a rule of the section checks.
    Key(&'static str),
}

/// A key that a reader of its own takes, as documentation shows it.
#[derive(Debug, Clone, Copy)]
pub struct KeyRow {
    /// Name of the key.
    pub name: &'static str,
    /// Type of its value.
    pub form: KeyForm,
    /// Default as a file writes it.
    pub default: KeyDefault,
    /// Lines of its documentation, in Markdown. An empty one ends a paragraph; the first paragraph is a summary.
    pub docs: &'static [&'static str],
}

/// Type of a value with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// A duration.
    Duration(Duration, DurationBound),
    /// A number.
    Count(usize, usize),
    /// A size in bytes.
    Size(usize, usize),
    /// True or false.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A text, and the name of its form.
    Text(&'static str),
    /// A list of texts.
    Texts,
}

/// Default of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDefault {
    /// This value, as a file writes it.
    Value(&'static str),
    /// None, and an example.
    None(&'static str),
    /// Another value, which the first text says in Markdown, and an example.
    Derived(&'static str, &'static str),
    /// The key must be there; an example.
    Required(&'static str),
}

// === impl ConfigKey ===

impl<S> ConfigKey<S> {
    /// Its row, or those of its shape.
    pub fn rows(&self) -> Vec<KeyRow> {
        let form = match self.reading {
            KeyReading::Duration(least, most, _) => KeyForm::Duration(least, most),
            KeyReading::Count(least, most, _) => KeyForm::Count(least, most),
            KeyReading::Size(least, most, _) => KeyForm::Size(least, most),
            KeyReading::Flag(_) => KeyForm::Flag,
            KeyReading::Choice(words, _) => KeyForm::Choice(words),
            KeyReading::Text(_) => KeyForm::Text("text"),
            KeyReading::Texts(_) => KeyForm::Texts,
            KeyReading::Shape(rows) => return rows.to_vec(),
        };
        vec![KeyRow { name: self.name, form, default: self.default, docs: self.docs }]
    }
}

/// Declares the values of a table: a struct with its defaults, and its keys (`KEYS`) for the reader and the
/// documentation. `taken` says when a change takes effect, unless a key has its own `at`.
///
/// | Kind | Arguments |
/// |---|---|
/// | `duration`, `size` | default, least `to` most; each a number and its unit. `most` may be another key |
/// | `count` | default, least `to` most |
/// | `optional_duration`, `optional_count` | example, least `to` most |
/// | `flag` | default `=>` value, the other `=>` value |
/// | `choice` | word `=>` value …; the first is the default |
/// | `text` | default, parser |
/// | `texts` | parser of one |
/// | `shape` | default, rows |
macro_rules! config_keys {
    (
        $(#[$about:meta])*
        pub struct $values:ident, taken at $when:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $kind:ident $args:tt $(at $own:ident)?;
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $values {
            $( $(#[doc = $doc])+ pub $field: $type, )+
        }

        impl Default for $values {
            fn default() -> Self {
                Self { $( $field: $crate::model::config_key::config_keys!(@default $kind $args), )+ }
            }
        }

        impl $values {
            /// Its keys, in the order of the documentation.
            pub const KEYS: &'static [$crate::model::config_key::ConfigKey<Self>] = &[
                $( $crate::model::config_key::ConfigKey {
                    name: stringify!($field),
                    docs: &[$($doc),+],
                    default: $crate::model::config_key::config_keys!(@shown $kind $args),
                    takes_effect: $crate::model::config_key::config_keys!(@when $when $($own)?),
                    reading: $crate::model::config_key::config_keys!(@reading $field $kind $args),
                    is_same: |one, other| one.$field == other.$field,
                    copy: |one, other| one.$field.clone_from(&other.$field),
                }, )+
            ];
        }
    };

    (@when $any:ident reload) => { $crate::model::config_key::TakesEffect::OnReload };
    (@when $any:ident restart) => { $crate::model::config_key::TakesEffect::AtRestart };
    (@when reload) => { $crate::model::config_key::TakesEffect::OnReload };
    (@when restart) => { $crate::model::config_key::TakesEffect::AtRestart };

    (@amount $n:literal ms) => { std::time::Duration::from_millis($n) };
    (@amount $n:literal s) => { std::time::Duration::from_secs($n) };
    (@amount $n:literal m) => { std::time::Duration::from_mins($n) };
    (@amount $n:literal h) => { std::time::Duration::from_hours($n) };
    (@amount $n:literal d) => { std::time::Duration::from_hours($n * 24) };
    (@amount $n:literal KiB) => { $n << 10 };
    (@amount $n:literal MiB) => { $n << 20 };
    (@amount $n:literal GiB) => { $n << 30 };

    (@most $n:literal $unit:ident) => {
        $crate::model::config_key::DurationBound::Fixed($crate::model::config_key::config_keys!(@amount $n $unit))
    };
    (@most $key:ident) => { $crate::model::config_key::DurationBound::Key(stringify!($key)) };

    (@default duration ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::config_keys!(@amount $n $unit)
    };
    (@default size ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::config_keys!(@amount $n $unit)
    };
    (@default count ($n:literal, $($bounds:tt)+)) => { $n };
    (@default optional_duration $args:tt) => { None };
    (@default optional_count $args:tt) => { None };
    (@default flag ($flag:literal => $value:expr, $($other:tt)+)) => { $value };
    (@default choice ($word:literal => $value:expr, $($others:tt)+)) => { $value };
    (@default text ($text:literal, $parse:expr)) => { $text.to_owned() };
    (@default texts $args:tt) => { Vec::new() };
    (@default shape ($value:expr, $rows:expr)) => { $value };

    (@shown duration ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::KeyDefault::Value(concat!('"', $n, stringify!($unit), '"'))
    };
    (@shown optional_duration ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::KeyDefault::None(concat!('"', $n, stringify!($unit), '"'))
    };
    (@shown size ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::KeyDefault::Value(concat!('"', $n, stringify!($unit), '"'))
    };
    (@shown count ($n:literal, $($bounds:tt)+)) => { $crate::model::config_key::KeyDefault::Value(concat!($n)) };
    (@shown optional_count ($n:literal, $($bounds:tt)+)) => { $crate::model::config_key::KeyDefault::None(concat!($n)) };
    (@shown flag ($flag:literal => $($rest:tt)+)) => { $crate::model::config_key::KeyDefault::Value(concat!($flag)) };
    (@shown choice ($word:literal => $($rest:tt)+)) => {
        $crate::model::config_key::KeyDefault::Value(concat!('"', $word, '"'))
    };
    (@shown text ($text:literal, $parse:expr)) => {
        $crate::model::config_key::KeyDefault::Value(concat!('"', $text, '"'))
    };
    (@shown texts $args:tt) => { $crate::model::config_key::KeyDefault::Value("[]") };
    (@shown shape $args:tt) => { $crate::model::config_key::KeyDefault::Value("") };

    (@reading $field:ident duration ($n:literal $unit:ident, $from:literal $from_unit:ident to $($most:tt)+)) => {
        $crate::model::config_key::KeyReading::Duration(
            $crate::model::config_key::config_keys!(@amount $from $from_unit),
            $crate::model::config_key::config_keys!(@most $($most)+),
            |values, value| values.$field = value,
        )
    };
    (@reading $field:ident optional_duration ($n:literal $unit:ident, $from:literal $from_unit:ident to $($most:tt)+)) => {
        $crate::model::config_key::KeyReading::Duration(
            $crate::model::config_key::config_keys!(@amount $from $from_unit),
            $crate::model::config_key::config_keys!(@most $($most)+),
            |values, value| values.$field = Some(value),
        )
    };
    (@reading $field:ident count ($n:literal, $least:literal to $most:literal)) => {
        $crate::model::config_key::KeyReading::Count($least, $most, |values, value| values.$field = value)
    };
    (@reading $field:ident optional_count ($n:literal, $least:literal to $most:literal)) => {
        $crate::model::config_key::KeyReading::Count($least, $most, |values, value| values.$field = Some(value))
    };
    (@reading $field:ident size ($n:literal $unit:ident, $from:literal $from_unit:ident to $to:literal $to_unit:ident)) => {
        $crate::model::config_key::KeyReading::Size(
            $crate::model::config_key::config_keys!(@amount $from $from_unit),
            $crate::model::config_key::config_keys!(@amount $to $to_unit),
            |values, value| values.$field = value,
        )
    };
    (@reading $field:ident flag ($flag:literal => $value:expr, $other:literal => $other_value:expr)) => {
        $crate::model::config_key::KeyReading::Flag(|values, flag| {
            values.$field = match flag {
                $flag => $value,
                $other => $other_value,
            }
        })
    };
    (@reading $field:ident choice ($($word:literal => $value:expr),+ $(,)?)) => {
        $crate::model::config_key::KeyReading::Choice(&[$($word),+], &[$( |values| values.$field = $value ),+])
    };
    (@reading $field:ident text ($text:literal, $parse:expr)) => {
        $crate::model::config_key::KeyReading::Text(|values, text| {
            $parse(text).map(|parsed| values.$field = parsed)
        })
    };
    (@reading $field:ident texts ($parse:expr)) => {
        $crate::model::config_key::KeyReading::Texts(|values, text| {
            $parse(text).map(|parsed| values.$field.push(parsed))
        })
    };
    (@reading $field:ident shape ($value:expr, $rows:expr)) => { $crate::model::config_key::KeyReading::Shape($rows) };
}

pub(crate) use config_keys;
