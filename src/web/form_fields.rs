//! The fields of a form that repeats a name, once for each server.

use serde::{
    Deserialize,
    de::{Error as _, IntoDeserializer as _, value::Error},
};

use crate::{model::Access, oauth::ChosenServers};

/// The fields of a form, in order.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct FormFields(Vec<(String, String)>);

// === impl FormFields ===

impl FormFields {
    /// Takes the value of a field; `None` if the form lacks it.
    ///
    /// # Errors
    ///
    /// If it is repeated (`OA-30`).
    pub(super) fn once(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        let mut values = self.all(name);
        let value = values.pop();
        if values.is_empty() { Ok(value) } else { Err(Error::duplicate_field(name)) }
    }

    /// Takes the value of the pressed button; `None` if the form lacks it.
    ///
    /// # Errors
    ///
    /// If it is repeated, or no button of the form has this value.
    pub(super) fn button<'de, T: Deserialize<'de>>(&mut self) -> Result<Option<T>, Error> {
        let pressed = self.once("decision")?;
        pressed.map(|pressed| T::deserialize(pressed.into_deserializer())).transpose()
    }

    /// Takes the chosen servers: `NAME`, `NAME:read` or `NAME:none` for each server of the page.
    pub(super) fn servers(&mut self) -> ChosenServers {
        let uses = self.all("use");
        let chosen = uses.iter().filter(|text| !text.ends_with(":none")).map(|text| {
            let read = text.strip_suffix(":read");
            (read.unwrap_or(text).to_owned(), Access::unless_read_only(read.is_some()))
        });
        ChosenServers { shown: uses.len(), servers: chosen.collect() }
    }

    fn all(&mut self, name: &str) -> Vec<String> {
        self.0.extract_if(.., |(field, _)| field == name).map(|(_, value)| value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> FormFields {
        FormFields(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    #[test]
    fn servers_are_chosen_whole_to_read_or_not_at_all() {
        let chosen = fields("use=files%3Aread&use=git&use=notes%3Anone&use=a%3Ab").servers();
        assert_eq!(chosen.shown, 4);
        let servers: Vec<_> = chosen.servers.iter().map(|(name, access)| (name.as_str(), *access)).collect();
        let [whole, read] = [false, true].map(Access::unless_read_only);
        assert_eq!(servers, [("a:b", whole), ("files", read), ("git", whole)]);
        assert_eq!(fields("token=x").servers(), ChosenServers::default());
    }

    #[test]
    fn oa_030_a_repeated_field_is_refused() {
        let mut form = fields("token=a&token=b&transaction=t");
        assert!(form.once("token").is_err());
        assert_eq!((form.once("transaction").unwrap().as_deref(), form.once("key").unwrap()), (Some("t"), None));
    }
}
