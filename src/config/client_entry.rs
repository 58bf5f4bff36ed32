//! One server in the file of another program, in the common form: `command`, `args`, `env`, `url`, `headers`.

use crate::config::tree::{ConfigEntry, ConfigNode, ConfigValue};

/// Names of the same options in other programs.
const NAMES: [(&str, &str); 10] = [
    ("httpUrl", "url"),
    ("serverUrl", "url"),
    ("uri", "url"),
    ("cmd", "command"),
    ("envs", "env"),
    ("environment", "env"),
    ("http_headers", "headers"),
    ("enabled_tools", "includeTools"),
    ("available_tools", "includeTools"),
    ("disabled_tools", "excludeTools"),
];

/// Kinds of extensions that are part of their program.
const BUILT_IN: [&str; 4] = ["builtin", "platform", "frontend", "inline_python"];

/// The members of one server.
struct ServerMembers(Vec<ConfigEntry>);

/// The server in the common form; `None` if it is disabled, or part of its program. With `has_braces`, references are
/// written `{env:NAME}` and `{file:PATH}`.
pub(super) fn in_common_form(server: ConfigEntry, has_braces: bool) -> Option<ConfigEntry> {
    let ConfigEntry { key, at, value: ConfigNode { at: value_at, value } } = server;
    let value = match value {
        ConfigValue::Table(members) => {
            let mut members = ServerMembers(members);
            members.bring_into_form();
            if members.is_off() || members.text("type").is_some_and(|kind| BUILT_IN.contains(&kind)) {
                return None;
            }
            if has_braces {
                members.0.iter_mut().for_each(|member| dollars(&mut member.value));
            }
            ConfigValue::Table(members.0)
        }
        other => other,
    };
    Some(ConfigEntry { key, at, value: ConfigNode { at: value_at, value } })
}

// === impl ServerMembers ===

impl ServerMembers {
    fn bring_into_form(&mut self) {
        // the same way other programs read it
        self.0.retain(|entry| !matches!(entry.value.value, ConfigValue::Other("null")));
        // older Goose
        if let Some(ConfigEntry { value: ConfigNode { value: ConfigValue::Table(members), .. }, .. }) =
            self.take("config")
        {
            self.0.extend(members);
        }
        // if both are there, `url` is for HTTP+SSE (Gemini CLI)
        if self.has("httpUrl") {
            self.take("url");
        }
        for (name, common) in NAMES {
            if !self.has(common)
                && let Some(entry) = self.0.iter_mut().find(|entry| entry.key == name)
            {
                common.clone_into(&mut entry.key);
            }
        }
        self.split_command();
        self.kind();
        self.variables();
        self.headers();
        self.timeouts();
        self.tools();
    }

    /// True if its program would not use it.
    fn is_off(&self) -> bool {
        let off = [("disabled", true), ("enabled", false)];
        self.0.iter().any(|entry| {
            let is_it = |(key, value): (&str, bool)| {
                entry.key == key && matches!(entry.value.value, ConfigValue::Flag(flag) if flag == value)
            };
            off.into_iter().any(is_it)
        })
    }

    /// The tools to use as a list (GitHub Copilot), and settings of single tools (Codex).
    fn tools(&mut self) {
        let Some(tools) = self.0.iter_mut().find(|entry| entry.key == "tools") else { return };
        match &mut tools.value.value {
            ConfigValue::List(names) => {
                let is_all = names.iter().any(|name| matches!(&name.value, ConfigValue::Text(name) if name == "*"));
                "includeTools".clone_into(&mut tools.key);
                if is_all {
                    self.take("includeTools");
                }
            }
            ConfigValue::Table(members) => members.retain(|member| match &member.value.value {
                ConfigValue::Table(said) => said.iter().all(|one| one.key != "approval_mode"),
                _ => true,
            }),
            _ => {}
        }
    }

    /// `command` as a list of words, and as a table with its arguments (older Zed).
    fn split_command(&mut self) {
        let Some(command) = self.0.iter().position(|entry| entry.key == "command") else { return };
        match &self.0[command].value.value {
            ConfigValue::List(words) => {
                let (at, mut words) = (self.0[command].at, words.clone());
                if words.is_empty() {
                    return;
                }
                let first = words.remove(0);
                self.0[command].value = first;
                self.put("args", at, ConfigValue::List(words));
            }
            ConfigValue::Table(members) => {
                let members = members.clone();
                self.0.remove(command);
                for mut member in members {
                    if member.key == "path" {
                        "command".clone_into(&mut member.key);
                    }
                    self.0.push(member);
                }
            }
            _ => {}
        }
    }

    /// Words for the transport.
    fn kind(&mut self) {
        let kind = self.0.iter_mut().find(|entry| entry.key == "type");
        if let Some(ConfigEntry { value: ConfigNode { value: ConfigValue::Text(kind), .. }, .. }) = kind {
            match kind.as_str() {
                "local" => "stdio".clone_into(kind),
                "remote" => "http".clone_into(kind),
                _ => {}
            }
        }
    }

    /// Names of variables that the program passes on, or keeps elsewhere.
    fn variables(&mut self) {
        for list in ["env_vars", "env_keys"] {
            let Some(ConfigEntry { at, value, .. }) = self.take(list) else { continue };
            let ConfigValue::List(names) = value.value else { continue };
            for name in names {
                let name = match name.value {
                    ConfigValue::Table(members) => Self(members).text("name").map(str::to_owned),
                    ConfigValue::Text(name) => Some(name),
                    _ => None,
                };
                if let Some(name) = name {
                    self.put_in("env", at, &name, format!("${{{name}}}"));
                }
            }
        }
        for member in self.0.iter_mut().filter(|entry| ["env", "headers"].contains(&entry.key.as_str())) {
            if let ConfigValue::Table(pairs) = &mut member.value.value {
                for pair in pairs {
                    braces(&mut pair.value);
                }
            }
        }
    }

    /// Headers with values in variables, or within other members.
    fn headers(&mut self) {
        if let Some(ConfigEntry { at, value: ConfigNode { value: ConfigValue::Text(name), .. }, .. }) =
            self.take("bearer_token_env_var")
        {
            self.put_in("headers", at, "Authorization", format!("Bearer ${{{name}}}"));
        }
        if let Some(ConfigEntry { at, value: ConfigNode { value: ConfigValue::Table(pairs), .. }, .. }) =
            self.take("env_http_headers")
        {
            for pair in pairs {
                if let ConfigValue::Text(name) = pair.value.value {
                    self.put_in("headers", at, &pair.key, format!("${{{name}}}"));
                }
            }
        }
        if let Some(ConfigEntry { value: ConfigNode { value: ConfigValue::Table(members), .. }, .. }) =
            self.take("requestInit")
        {
            let headers = members.into_iter().find(|member| member.key == "headers");
            self.0.extend(headers.filter(|_| !self.has("headers")));
        }
    }

    /// Times in whole seconds.
    fn timeouts(&mut self) {
        for (name, own) in [("startup_timeout_sec", "start_timeout"), ("tool_timeout_sec", "call_timeout")] {
            if let Some(ConfigEntry { at, value, .. }) = self.take(name)
                && let ConfigValue::Integer(seconds) = value.value
            {
                self.put(own, at, ConfigValue::Text(format!("{seconds}s")));
            }
        }
    }

    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|entry| entry.key == key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|entry| entry.key == key).and_then(|entry| match &entry.value.value {
            ConfigValue::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    fn take(&mut self, key: &str) -> Option<ConfigEntry> {
        let at = self.0.iter().position(|entry| entry.key == key)?;
        Some(self.0.remove(at))
    }

    fn put(&mut self, key: &str, at: usize, value: ConfigValue) {
        self.0.push(ConfigEntry { key: key.to_owned(), at, value: ConfigNode { at, value } });
    }

    /// Adds a pair to the table `key`.
    fn put_in(&mut self, key: &str, at: usize, name: &str, text: String) {
        if !self.has(key) {
            self.put(key, at, ConfigValue::Table(Vec::new()));
        }
        let Some(member) = self.0.iter_mut().find(|entry| entry.key == key) else { return };
        if let ConfigValue::Table(pairs) = &mut member.value.value
            && pairs.iter().all(|pair| pair.key != name)
        {
            let value = ConfigNode { at, value: ConfigValue::Text(text) };
            pairs.push(ConfigEntry { key: name.to_owned(), at, value });
        }
    }
}

/// A plain `$NAME` as `${NAME}` (Gemini CLI).
fn braces(node: &mut ConfigNode) {
    let ConfigValue::Text(text) = &mut node.value else { return };
    let is_name = |name: &str| {
        name.starts_with(|one: char| one.is_ascii_alphabetic() || one == '_')
            && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
    };
    if let Some(name) = text.strip_prefix('$').filter(|name| is_name(name)) {
        *text = format!("${{{name}}}");
    }
}

/// `{env:NAME}` as `${env:NAME}`, and `{file:PATH}` as `${file:PATH}` (opencode).
fn dollars(node: &mut ConfigNode) {
    match &mut node.value {
        ConfigValue::Text(text) => {
            for reference in ["{env:", "{file:"] {
                // references that already have a dollar stay as they are
                *text = text.replace(&format!("${reference}"), reference).replace(reference, &format!("${reference}"));
            }
        }
        ConfigValue::List(nodes) => nodes.iter_mut().for_each(dollars),
        ConfigValue::Table(entries) => entries.iter_mut().for_each(|entry| dollars(&mut entry.value)),
        ConfigValue::Integer(_) | ConfigValue::Flag(_) | ConfigValue::Other(_) => {}
    }
}
