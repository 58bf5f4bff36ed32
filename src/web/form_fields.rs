//! The fields of a form in which a name may be repeated, as a name of several checkboxes is.

use std::collections::HashSet;

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

    /// The same for a button.
    ///
    /// # Errors
    ///
    /// If it is repeated, or no button of the form has this value.
    pub(super) fn button<'de, T: Deserialize<'de>>(&mut self) -> Result<Option<T>, Error> {
        let pressed = self.once("decision")?;
        pressed.map(|pressed| T::deserialize(pressed.into_deserializer())).transpose()
    }

    /// Takes the chosen servers.
    ///
    /// # Errors
    ///
    /// If the number of shown servers is repeated or no number.
    pub(super) fn servers(&mut self) -> Result<ChosenServers, Error> {
        let shown = self.once("shown")?.map(|shown| shown.parse()).transpose().map_err(Error::custom)?;
        let read_only: HashSet<String> = self.all("read").into_iter().collect();
        let access = |name: &String| Access::unless_read_only(read_only.contains(name));
        let servers = self.all("server").into_iter().map(|name| (name.clone(), access(&name))).collect();
        Ok(ChosenServers { shown: shown.unwrap_or_default(), servers })
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
    fn servers_are_chosen_whole_or_to_read() {
        let mut form = fields("shown=3&server=files&read=files&server=git&server=git&read=notes");
        let chosen = form.servers().unwrap();
        assert_eq!(chosen.shown, 3);
        let servers: Vec<_> = chosen.servers.into_iter().collect();
        assert_eq!(
            servers,
            [("files".to_owned(), Access::ReadOnly), ("git".to_owned(), Access::unless_read_only(false))]
        );
        assert_eq!(fields("token=x").servers().unwrap(), ChosenServers::default());
        assert!(fields("shown=many").servers().is_err() && fields("shown=1&shown=2").servers().is_err());
    }

    #[test]
    fn oa_030_a_repeated_field_is_refused() {
        let mut form = fields("token=a&token=b&transaction=t");
        assert!(form.once("token").is_err());
        assert_eq!((form.once("transaction").unwrap().as_deref(), form.once("key").unwrap()), (Some("t"), None));
    }
}
