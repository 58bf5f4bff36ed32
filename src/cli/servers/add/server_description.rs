//! Turns a `server.json` of the MCP registry into a server entry of the configuration file.

use serde::Deserialize;

use crate::cli::servers::servers_file::{EntryLogin, ServerEntry};

/// The parts of a `server.json` that an entry needs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerDescription {
    #[serde(default)]
    packages: Vec<DescribedPackage>,
    #[serde(default)]
    remotes: Vec<Remote>,
}

/// An answer of the registry's API, which wraps the description.
#[derive(Deserialize)]
struct RegistryAnswer {
    server: ServerDescription,
}

/// A package that a launcher such as `npx` runs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribedPackage {
    #[serde(alias = "registry_name")]
    registry_type: String,
    #[serde(alias = "name")]
    identifier: String,
    version: Option<String>,
    transport: Option<PackageTransport>,
    #[serde(default)]
    runtime_arguments: Vec<DescribedArgument>,
    #[serde(default)]
    package_arguments: Vec<DescribedArgument>,
    #[serde(default)]
    environment_variables: Vec<DescribedValue>,
}

#[derive(Debug, Deserialize)]
struct PackageTransport {
    #[serde(rename = "type")]
    kind: String,
}

/// An argument of a program: a value, or a name and perhaps a value.
#[derive(Debug, Deserialize)]
struct DescribedArgument {
    name: Option<String>,
    #[serde(flatten)]
    input: DescribedValue,
}

/// A value that the description gives, or that a person has to fill in.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribedValue {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    value: Option<String>,
    default: Option<String>,
    #[serde(default)]
    is_required: bool,
}

/// A server at a URL.
#[derive(Debug, Deserialize)]
struct Remote {
    #[serde(rename = "type")]
    kind: String,
    url: String,
    #[serde(default)]
    headers: Vec<DescribedValue>,
}

/// Environment variables that a person has to set, each with its description.
pub(super) type OpenValues = Vec<(String, String)>;

// === impl ServerDescription ===

impl ServerDescription {
    /// Reads a description, or an answer of the registry.
    ///
    /// # Errors
    ///
    /// The reason why the text is not one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let listed = serde_json::from_str::<RegistryAnswer>(text).map(|listed| listed.server);
        listed.or_else(|_| serde_json::from_str(text)).map_err(|error| format!("it is not a server.json: {error}"))
    }

    /// The entry of the first package that can be started here, else of the first remote.
    ///
    /// # Errors
    ///
    /// The reason why none can be used.
    pub(super) fn entry(&self) -> Result<(ServerEntry, OpenValues), String> {
        let mut reasons = Vec::new();
        for package in &self.packages {
            match package.entry() {
                Ok(entry) => return Ok(entry),
                Err(reason) => reasons.push(reason),
            }
        }
        match self.remotes.first() {
            Some(remote) => remote.entry(),
            None if reasons.is_empty() => Err("it has neither packages nor remotes".to_owned()),
            None => Err(reasons.join("; ")),
        }
    }
}

// === impl DescribedPackage ===

impl DescribedPackage {
    fn entry(&self) -> Result<(ServerEntry, OpenValues), String> {
        if let Some(PackageTransport { kind }) = &self.transport
            && kind != "stdio"
        {
            let identifier = &self.identifier;
            return Err(format!("{identifier} serves {kind}: start it by itself, and add its URL"));
        }
        let (env, open) = inputs(&self.environment_variables);
        let launched = self.launcher(&env)?;
        let more = words(&self.package_arguments)?;
        Ok((ServerEntry::Program { words: [launched, more].concat(), env }, open))
    }

    /// The command that runs the package.
    fn launcher(&self, env: &[(String, String)]) -> Result<Vec<String>, String> {
        let Self { identifier, .. } = self;
        let at = |sign: &str| match &self.version {
            Some(version) if version != "latest" => format!("{identifier}{sign}{version}"),
            _ => identifier.clone(),
        };
        let given = words(&self.runtime_arguments)?;
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Ok(match self.registry_type.as_str() {
            "npm" => {
                let yes = if given.iter().any(|word| word == "-y" || word == "--yes") {
                    own(&["npx"])
                } else {
                    own(&["npx", "-y"])
                };
                [yes, given, vec![at("@")]].concat()
            }
            "pypi" => [own(&["uvx"]), given, vec![at("==")]].concat(),
            "nuget" => [own(&["dnx"]), given, vec![at("@")], own(&["--yes"])].concat(),
            "oci" | "docker" => {
                // the name of an image may already include a tag or digest
                let image = if identifier.rsplit('/').next().is_some_and(|last| last.contains([':', '@'])) {
                    identifier.clone()
                } else {
                    at(":")
                };
                let variables = env.iter().flat_map(|(name, _)| own(&["-e", name])).collect();
                [own(&["docker", "run", "-i", "--rm"]), variables, given, vec![image]].concat()
            }
            other => return Err(format!("{identifier} is a package of `{other}`, which has no launcher here")),
        })
    }
}

/// The arguments as words. A required positional argument without a value is an error.
fn words(arguments: &[DescribedArgument]) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for argument in arguments {
        let value = argument.input.known();
        if value.is_none() && argument.input.is_required && argument.name.is_none() {
            let what = if argument.input.description.is_empty() { "a value" } else { &argument.input.description };
            return Err(format!("it needs an argument ({what}): add it as a command, after two dashes"));
        }
        match (&argument.name, value) {
            (Some(name), Some(value)) => words.extend([name.clone(), value.clone()]),
            (Some(name), None) if argument.input.is_required => words.push(name.clone()),
            (None, Some(value)) => words.push(value.clone()),
            (_, None) => {}
        }
    }
    Ok(words)
}

/// Variables or headers. If a person has to give a value, it becomes a reference to a variable, and is listed.
fn inputs(inputs: &[DescribedValue]) -> (Vec<(String, String)>, OpenValues) {
    let (mut known, mut open) = (Vec::new(), Vec::new());
    for input in inputs {
        match input.known() {
            Some(value) => known.push((input.name.clone(), value.clone())),
            None if input.is_required => {
                let variable = variable(&input.name);
                known.push((input.name.clone(), format!("${{{variable}}}")));
                open.push((variable, input.description.clone()));
            }
            None => {}
        }
    }
    (known, open)
}

/// The name of the environment variable for an input: `X-Api-Key` becomes `X_API_KEY`.
fn variable(name: &str) -> String {
    name.chars().map(|one| if one.is_ascii_alphanumeric() { one.to_ascii_uppercase() } else { '_' }).collect()
}

// === impl DescribedValue ===

impl DescribedValue {
    /// The value, unless a person has to fill in a part of it.
    fn known(&self) -> Option<&String> {
        self.value.as_ref().or(self.default.as_ref()).filter(|value| !value.contains('{'))
    }
}

// === impl Remote ===

impl Remote {
    fn entry(&self) -> Result<(ServerEntry, OpenValues), String> {
        if self.url.contains('{') {
            return Err(format!("a part of its URL has to be filled in: {}", self.url));
        }
        let kind = match self.kind.as_str() {
            "streamable-http" | "streamable" => None,
            "sse" => Some("sse"),
            other => return Err(format!("{} is reached by `{other}`, which is unknown here", self.url)),
        };
        let (headers, open) = inputs(&self.headers);
        Ok((ServerEntry::Remote { url: self.url.clone(), kind, headers, login: EntryLogin::None }, open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Result<(ServerEntry, OpenValues), String> {
        ServerDescription::parse(text)?.entry()
    }

    fn command(text: &str) -> String {
        match entry(text).unwrap().0 {
            ServerEntry::Program { words, .. } => words.join(" "),
            ServerEntry::Remote { url, .. } => url,
        }
    }

    #[test]
    fn each_registry_has_its_launcher() {
        let of = |kind: &str, more: &str| {
            command(&format!(
                r#"{{"packages":[{{"registryType":"{kind}","identifier":"x/y","version":"1.2","transport":{{"type":"stdio"}}{more}}}]}}"#
            ))
        };
        assert_eq!(of("npm", ""), "npx -y x/y@1.2");
        assert_eq!(
            of(
                "pypi",
                r#","packageArguments":[{"type":"named","name":"--dir","value":"/data"},{"type":"positional","value":"go"}]"#
            ),
            "uvx x/y==1.2 --dir /data go"
        );
        assert_eq!(
            of("oci", r#","environmentVariables":[{"name":"KEY","isRequired":true}]"#),
            "docker run -i --rm -e KEY x/y:1.2"
        );
        assert_eq!(of("nuget", ""), "dnx x/y@1.2 --yes");
    }

    #[test]
    fn an_answer_of_the_registry_with_an_address_is_read() {
        let text = r#"{"server":{"name":"a/b","remotes":[{"type":"sse","url":"https://a.example/sse",
            "headers":[{"name":"X-Api-Key","description":"the key","isRequired":true,"isSecret":true}]}]},"_meta":{}}"#;
        let headers = vec![("X-Api-Key".to_owned(), "${X_API_KEY}".to_owned())];
        let (url, login) = ("https://a.example/sse".to_owned(), EntryLogin::None);
        let expected = ServerEntry::Remote { url, kind: Some("sse"), headers, login };
        assert_eq!(entry(text).unwrap(), (expected, vec![("X_API_KEY".to_owned(), "the key".to_owned())]));
    }

    #[test]
    fn what_cannot_be_started_says_why() {
        let reason = |text: &str| entry(text).unwrap_err();
        assert_eq!(reason("{}"), "it has neither packages nor remotes");
        assert!(reason("7").starts_with("it is not a server.json"));
        let bundle = r#"{"packages":[{"registryType":"mcpb","identifier":"https://a.example/x.mcpb"}]}"#;
        assert!(reason(bundle).contains("`mcpb`, which has no launcher here"));
        let open = r#"{"packages":[{"registryType":"npm","identifier":"x","packageArguments":[{"type":"positional","isRequired":true,"description":"a folder"}]}]}"#;
        assert!(reason(open).contains("(a folder)"));
    }
}
