//! Declaration of configuration keys, next to the values they set: documentation, type, default, bounds, and whether a
//! change takes effect on reload. `config` reads the keys from files and lists their rows.

use std::time::Duration;

use super::NameGlobs;

/// A key of the table behind the values `S`.
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
    /// A number, with its minimum and maximum.
    Count(usize, usize, fn(&mut S, usize)),
    /// A size in bytes, with its minimum and maximum.
    Size(usize, usize, fn(&mut S, usize)),
    Flag(fn(&mut S, bool)),
    /// One of these words, each with its setter.
    Choice(&'static [&'static str], &'static [fn(&mut S)]),
    /// A text; the setter's error is the fault.
    Text(fn(&mut S, &str) -> Result<(), String>),
    /// A list of texts: a function that empties it, and one that adds a text or returns its fault.
    Texts(fn(&mut S), fn(&mut S, &str) -> Result<(), String>),
    /// The same, or a single such text.
    TextOrTexts(fn(&mut S), fn(&mut S, &str) -> Result<(), String>),
    /// A list of patterns.
    Patterns(fn(&mut S, NameGlobs)),
    /// Several keys that select a shape together, read by a function of the section.
    Shape(&'static [KeyRow]),
}

/// Upper bound of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationBound {
    Fixed(Duration),
    /// The value of another key, which a rule of the section checks.
    Key(&'static str),
}

/// A key, as shown in the documentation.
#[derive(Debug, Clone, Copy)]
pub struct KeyRow {
    /// Name of the key.
    pub name: &'static str,
    /// Type of its value.
    pub form: KeyForm,
    /// Default, as written in a file.
    pub default: KeyDefault,
    /// Lines of its documentation, in Markdown. An empty one ends a paragraph; the first paragraph is a summary.
    pub docs: &'static [&'static str],
}

/// Type of a value with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    Duration(Duration, DurationBound),
    Count(usize, usize),
    /// A size in bytes.
    Size(usize, usize),
    Flag,
    /// One of the given words.
    Choice(&'static [&'static str]),
    /// A text, and the name of its form.
    Text(&'static str),
    /// A text, or `false`.
    TextOrFalse,
    /// A list of texts.
    Texts,
    /// A text, or a list of texts.
    TextOrTexts,
    /// A table of texts with any names.
    TableOfTexts,
    /// A table of tables with any names and values.
    TableOfTables,
    /// A table with keys of its own, by the name of its definition in the schema.
    Table(&'static str),
    /// Such tables with any names.
    Tables(&'static str),
}

/// Default of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDefault {
    /// This value, as written in a file.
    Value(&'static str),
    /// The same, and an example of another value.
    Example(&'static str, &'static str),
    /// None, and an example, which is not shown if empty.
    None(&'static str),
    /// Another value, described in Markdown, and an example.
    Derived(&'static str, &'static str),
    /// The key is required; an example.
    Required(&'static str),
}

// === impl ConfigKey ===

impl<S> ConfigKey<S> {
    /// Its row, or the rows of its shape.
    pub fn rows(&self) -> Vec<KeyRow> {
        let form = match self.reading {
            KeyReading::Duration(least, most, _) => KeyForm::Duration(least, most),
            KeyReading::Count(least, most, _) => KeyForm::Count(least, most),
            KeyReading::Size(least, most, _) => KeyForm::Size(least, most),
            KeyReading::Flag(_) => KeyForm::Flag,
            KeyReading::Choice(words, _) => KeyForm::Choice(words),
            KeyReading::Text(_) => KeyForm::Text("text"),
            KeyReading::Texts(..) | KeyReading::Patterns(_) => KeyForm::Texts,
            KeyReading::TextOrTexts(..) => KeyForm::TextOrTexts,
            KeyReading::Shape(rows) => return rows.to_vec(),
        };
        vec![KeyRow { name: self.name, form, default: self.default, docs: self.docs }]
    }
}

/// Declares the values of a table: a struct with its defaults, and its keys (`KEYS`) for the reader and the
/// documentation. `taken` says when a change takes effect, unless a key has its own `at`. With `made of`, the struct
/// has these further fields, which are not keys of this kind; defaults may use them. `least named` defines a constant
/// for the least value.
///
/// | Kind | Arguments |
/// |---|---|
/// | `duration`, `size` | default, least `to` most; each a number and its unit. `most` may be another key |
/// | `interval` | as `duration`; `0s` means none, and less than a second is a second |
/// | `count` | default, least `to` most |
/// | `optional_duration`, `optional_size`, `optional_count` | example, least `to` most |
/// | `flag` | default `=>` value, the other `=>` value |
/// | `choice` | word `=>` value …; the first is the default |
/// | `optional_choice` | example, word `=>` value … |
/// | `text` | default, parser |
/// | `optional_text` | example, parser |
/// | `derived_text` | default, the same in Markdown, example, parser |
/// | `texts` | parser of one, perhaps an example; or word `=>` value … `;` parser, for a default that is not empty |
/// | `text_or_texts` | what adds one to the value, example |
/// | `patterns`, `optional_patterns` | example |
/// | `shape` | default, rows |
macro_rules! config_keys {
    (
        $(#[$about:meta])*
        pub struct $values:ident, taken at $when:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $kind:ident $args:tt $(at $own:ident)? $(, least named $least:ident)?;
            )+
        }
    ) => {
        $crate::model::config_key::config_keys! {
            $(#[$about])*
            pub struct $values, taken at $when, made of () {
                $( $(#[doc = $doc])+ $field: $type = $kind $args $(at $own)? $(, least named $least)?; )+
            }
        }

        impl Default for $values {
            fn default() -> Self {
                Self::with_defaults()
            }
        }
    };
    (
        $(#[$about:meta])*
        pub struct $values:ident, taken at $when:ident, made of (
            $( $(#[doc = $given_doc:literal])+ $given:ident: $given_type:ty ),* $(,)?
        ) {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $kind:ident $args:tt $(at $own:ident)? $(, least named $least:ident)?;
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $values {
            $( $(#[doc = $given_doc])+ pub $given: $given_type, )*
            $( $(#[doc = $doc])+ pub $field: $type, )+
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
            $($(
                #[doc = concat!("The least value of `", stringify!($field), "`, which every configuration allows.")]
                pub const $least: $type = $crate::model::config_key::config_keys!(@least $kind $args);
            )?)+

            /// The default of each key.
            pub(crate) fn with_defaults($($given: $given_type),*) -> Self {
                Self {
                    $( $field: $crate::model::config_key::config_keys!(@default $kind $args), )+
                    $( $given, )*
                }
            }
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

    (@least size ($n:literal $unit:ident, $from:literal $from_unit:ident to $($most:tt)+)) => {
        $crate::model::config_key::config_keys!(@amount $from $from_unit)
    };

    (@default duration ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::config_keys!(@amount $n $unit)
    };
    (@default size ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::config_keys!(@amount $n $unit)
    };
    (@default count ($n:literal, $($bounds:tt)+)) => { $n };
    (@default interval ($n:literal $unit:ident, $($bounds:tt)+)) => {
        Some($crate::model::config_key::config_keys!(@amount $n $unit))
    };
    (@default optional_duration $args:tt) => { None };
    (@default optional_size $args:tt) => { None };
    (@default optional_count $args:tt) => { None };
    (@default flag ($flag:literal => $value:expr, $($other:tt)+)) => { $value };
    (@default choice ($word:literal => $value:expr, $($others:tt)+)) => { $value };
    (@default optional_choice $args:tt) => { None };
    (@default text ($text:literal, $parse:expr)) => { $text.to_owned() };
    (@default optional_text $args:tt) => { None };
    (@default derived_text ($value:expr, $($rest:tt)+)) => { $value };
    (@default texts ($($text:literal => $value:expr),+; $parse:expr)) => { vec![$($value),+] };
    (@default texts $args:tt) => { Vec::new() };
    (@default text_or_texts $args:tt) => { Default::default() };
    (@default patterns $args:tt) => { $crate::model::NameGlobs::default() };
    (@default optional_patterns $args:tt) => { None };
    (@default shape ($value:expr, $rows:expr)) => { $value };

    (@shown duration ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::KeyDefault::Value(concat!('"', $n, stringify!($unit), '"'))
    };
    (@shown interval ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::KeyDefault::Value(concat!('"', $n, stringify!($unit), '"'))
    };
    (@shown optional_duration ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::KeyDefault::None(concat!('"', $n, stringify!($unit), '"'))
    };
    (@shown size ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::KeyDefault::Value(concat!('"', $n, stringify!($unit), '"'))
    };
    (@shown optional_size ($n:literal $unit:ident, $($bounds:tt)+)) => {
        $crate::model::config_key::KeyDefault::None(concat!('"', $n, stringify!($unit), '"'))
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
    (@shown optional_choice ($example:literal, $($rest:tt)+)) => {
        $crate::model::config_key::KeyDefault::None(concat!('"', $example, '"'))
    };
    (@shown optional_text ($example:literal, $parse:expr)) => {
        $crate::model::config_key::KeyDefault::None(concat!('"', $example, '"'))
    };
    (@shown derived_text ($value:expr, $from:literal, $example:literal, $parse:expr)) => {
        $crate::model::config_key::KeyDefault::Derived($from, concat!('"', $example, '"'))
    };
    (@shown texts ($first:literal => $value:expr $(, $text:literal => $values:expr)*; $parse:expr)) => {
        $crate::model::config_key::KeyDefault::Value(concat!("[\"", $first, $("\", \"", $text,)* "\"]"))
    };
    (@shown texts ($parse:expr, $example:literal)) => {
        $crate::model::config_key::KeyDefault::Example("[]", $example)
    };
    (@shown text_or_texts ($add:expr, $example:literal)) => {
        $crate::model::config_key::KeyDefault::Example("[]", $example)
    };
    (@shown texts ($parse:expr)) => { $crate::model::config_key::KeyDefault::Value("[]") };
    (@shown patterns ($example:literal)) => { $crate::model::config_key::KeyDefault::Example("[]", $example) };
    (@shown optional_patterns ($example:literal)) => { $crate::model::config_key::KeyDefault::None($example) };
    (@shown shape $args:tt) => { $crate::model::config_key::KeyDefault::Value("") };

    (@reading $field:ident duration ($n:literal $unit:ident, $from:literal $from_unit:ident to $($most:tt)+)) => {
        $crate::model::config_key::KeyReading::Duration(
            $crate::model::config_key::config_keys!(@amount $from $from_unit),
            $crate::model::config_key::config_keys!(@most $($most)+),
            |values, value| values.$field = value,
        )
    };
    (@reading $field:ident interval ($n:literal $unit:ident, $from:literal $from_unit:ident to $($most:tt)+)) => {
        $crate::model::config_key::KeyReading::Duration(
            $crate::model::config_key::config_keys!(@amount $from $from_unit),
            $crate::model::config_key::config_keys!(@most $($most)+),
            |values, value| {
                values.$field = (!value.is_zero()).then(|| value.max(std::time::Duration::from_secs(1)));
            },
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
    (@reading $field:ident optional_size
        ($n:literal $unit:ident, $from:literal $from_unit:ident to $to:literal $to_unit:ident)
    ) => {
        $crate::model::config_key::KeyReading::Size(
            $crate::model::config_key::config_keys!(@amount $from $from_unit),
            $crate::model::config_key::config_keys!(@amount $to $to_unit),
            |values, value| values.$field = Some(value),
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
    (@reading $field:ident optional_choice ($example:literal, $($word:literal => $value:expr),+ $(,)?)) => {
        $crate::model::config_key::KeyReading::Choice(
            &[$($word),+],
            &[$( |values| values.$field = Some($value) ),+],
        )
    };
    (@reading $field:ident text ($text:literal, $parse:expr)) => {
        $crate::model::config_key::KeyReading::Text(|values, text| {
            $parse(text).map(|parsed| values.$field = parsed)
        })
    };
    (@reading $field:ident optional_text ($example:literal, $parse:expr)) => {
        $crate::model::config_key::KeyReading::Text(|values, text| {
            $parse(text).map(|parsed| values.$field = Some(parsed))
        })
    };
    (@reading $field:ident derived_text ($value:expr, $from:literal, $example:literal, $parse:expr)) => {
        $crate::model::config_key::KeyReading::Text(|values, text| {
            $parse(text).map(|parsed| values.$field = parsed)
        })
    };
    (@reading $field:ident texts ($($text:literal => $value:expr),+; $parse:expr)) => {
        $crate::model::config_key::config_keys!(@reading $field texts ($parse))
    };
    (@reading $field:ident texts ($parse:expr $(, $example:literal)?)) => {
        $crate::model::config_key::KeyReading::Texts(
            |values| values.$field.clear(),
            |values, text| $parse(text).map(|parsed| values.$field.push(parsed)),
        )
    };
    (@reading $field:ident text_or_texts ($add:expr, $example:literal)) => {
        $crate::model::config_key::KeyReading::TextOrTexts(
            |values| values.$field = Default::default(),
            |values, text| $add(&mut values.$field, text),
        )
    };
    (@reading $field:ident patterns ($example:literal)) => {
        $crate::model::config_key::KeyReading::Patterns(|values, patterns| values.$field = patterns)
    };
    (@reading $field:ident optional_patterns ($example:literal)) => {
        $crate::model::config_key::KeyReading::Patterns(|values, patterns| values.$field = Some(patterns))
    };
    (@reading $field:ident shape ($value:expr, $rows:expr)) => { $crate::model::config_key::KeyReading::Shape($rows) };
}

/// Declares the rows of keys with a reader of their own: documentation, name, type ([`KeyForm`]) and default
/// ([`KeyDefault`]).
macro_rules! key_rows {
    (
        $(#[$about:meta])*
        $visible:vis const $rows:ident {
            $(
                $(#[doc = $doc:literal])+
                $name:ident: $form:ident $(($($detail:expr),+))?, $default:ident ($($value:expr),+);
            )+
        }
    ) => {
        $(#[$about])*
        $visible const $rows: &[$crate::model::config_key::KeyRow] = &[
            $( $crate::model::config_key::KeyRow {
                name: stringify!($name),
                form: $crate::model::config_key::KeyForm::$form $(($($detail),+))?,
                default: $crate::model::config_key::KeyDefault::$default($($value),+),
                docs: &[$($doc),+],
            }, )+
        ];
    };
}

pub(crate) use {config_keys, key_rows};
