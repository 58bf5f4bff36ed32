//! YAML to the tree.

use saphyr::{LoadableYamlNode as _, MarkedYamlOwned, ScalarOwned, YamlDataOwned};

use super::{
    problem::{ConfigProblem, ConfigProblems},
    tree::{self, ConfigEntry, ConfigNode, ConfigValue, Document},
};

/// The text of a file, with the byte offset of each character.
struct CharacterPlaces(Vec<usize>);

/// Parses the text of `file`, which holds one document.
pub fn parse(file: &str, text: &str) -> Result<Document, ConfigProblems> {
    let places = CharacterPlaces(text.char_indices().map(|(at, _)| at).chain([text.len()]).collect());
    let fault =
        |at: usize, what: String| ConfigProblems(vec![ConfigProblem::new(tree::place_in(file, text, at), what)]);
    let documents = MarkedYamlOwned::load_from_str(text)
        .map_err(|error| fault(places.byte(error.marker().index()), format!("this is not YAML: {}", error.info())))?;
    match documents.first().map(|document| &document.data) {
        Some(YamlDataOwned::Mapping(_)) => {}
        Some(_) => return Err(fault(0, "the file must hold a mapping".to_owned())),
        None => return Err(fault(0, "the file is empty".to_owned())),
    }
    let root = documents.first().map(|document| places.node(document).value);
    let entries = if let Some(ConfigValue::Table(entries)) = root { entries } else { Vec::new() };
    Ok(Document::new(file, text, entries))
}

// === impl CharacterPlaces ===

impl CharacterPlaces {
    fn byte(&self, character: usize) -> usize {
        self.0.get(character).or(self.0.last()).copied().unwrap_or(0)
    }

    fn node(&self, node: &MarkedYamlOwned) -> ConfigNode {
        let at = self.byte(node.span.start.index());
        let value = match &node.data {
            YamlDataOwned::Value(ScalarOwned::String(text)) | YamlDataOwned::Representation(text, ..) => {
                ConfigValue::Text(text.clone())
            }
            YamlDataOwned::Value(ScalarOwned::Integer(number)) => ConfigValue::Integer(*number),
            YamlDataOwned::Value(ScalarOwned::Boolean(flag)) => ConfigValue::Flag(*flag),
            YamlDataOwned::Value(ScalarOwned::FloatingPoint(_)) => ConfigValue::Other("a fraction"),
            YamlDataOwned::Value(ScalarOwned::Null) => ConfigValue::Other("null"),
            YamlDataOwned::Sequence(nodes) => ConfigValue::List(nodes.iter().map(|node| self.node(node)).collect()),
            YamlDataOwned::Mapping(pairs) => ConfigValue::Table(
                pairs
                    .iter()
                    .filter_map(|(key, value)| {
                        let key_text = match &key.data {
                            YamlDataOwned::Value(ScalarOwned::String(text)) => text.clone(),
                            YamlDataOwned::Value(ScalarOwned::Integer(number)) => number.to_string(),
                            _ => return None,
                        };
                        Some(ConfigEntry {
                            key: key_text,
                            at: self.byte(key.span.start.index()),
                            value: self.node(value),
                        })
                    })
                    .collect(),
            ),
            YamlDataOwned::Tagged(_, inner) => self.node(inner).value,
            YamlDataOwned::Alias(_) | YamlDataOwned::BadValue => ConfigValue::Other("an alias"),
        };
        ConfigNode { at, value }
    }
}
