//! `lockkeeper client`: prints what a client needs to connect to this gateway, or writes it into the client's file.

mod entry;
mod programs;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{
    ArgGroup, Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde_json::json;

use self::{
    entry::{Existing, GatewayPlace, text, with_entry, without_entry},
    programs::{ClientProgram, EntryForm, PROGRAMS},
};
use crate::{
    cli::{
        arguments, replaced_file,
        running::gateway_client::GatewayClient,
        terminal::{
            documents::{self, Became, FormatArgs},
            failure::CommandFailure,
            process::ProcessContext,
            table::{Cell, TextTable},
        },
    },
    config::{Config, PublicUrl, text_of},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper client                          the known clients
  lockkeeper client cursor                   what Cursor needs
  lockkeeper client cursor --write           writes it into Cursor's file
  lockkeeper client cursor --remove          removes it again
  lockkeeper client zed --server git         only one server
  lockkeeper client codex --url https://mcp.example.com --write";

/// Maximum size of a client's file, in bytes.
const LONGEST: u64 = 16 << 20;

/// `client`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("change").args(["write", "remove"]))]
pub struct ClientArgs {
    /// The client; without one, all are listed
    #[arg(value_parser = known())]
    client: Option<ClientProgram>,
    /// The gateway's public URL; default: that of the running gateway or of the configuration
    #[arg(long, value_name = "URL", value_parser = PublicUrl::of_gateway)]
    url: Option<PublicUrl>,
    /// A server or a group, instead of all servers
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Writes the entry into the client's file
    #[arg(long, requires = "client")]
    write: bool,
    /// Removes the entry from the client's file
    #[arg(long, requires = "client", conflicts_with_all = ["url", "server"])]
    remove: bool,
    /// A file other than the usual one
    #[arg(long, value_name = "FILE", requires = "change")]
    file: Option<PathBuf>,
    /// Replaces another entry of the same name
    #[arg(long, requires = "write")]
    replace: bool,
    #[command(flatten)]
    form: FormatArgs,
}

/// The parser of client names, which shells can complete.
fn known() -> impl TypedValueParser<Value = ClientProgram> {
    PossibleValuesParser::new(PROGRAMS.map(|program| program.id))
        .try_map(|name| PROGRAMS.into_iter().find(|program| program.id == name).ok_or("this is not a known client"))
}

// === impl ClientArgs ===

impl ClientArgs {
    /// Lists the clients, or prints, writes or removes the entry of one.
    pub fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let Some(program) = self.client else {
            self.list(process);
            return Ok(());
        };
        let path = self
            .file
            .as_ref()
            .map(|file| process.folder.join(file))
            .or_else(|| program.file.path(&process.environment));
        let path = path.ok_or_else(|| {
            CommandFailure::failed("there is no home folder").advise("name the file: `--write --file FILE`")
        })?;
        if self.remove {
            return self.remove(&program, &path, process);
        }
        let url = self.endpoint(process)?;
        if self.write {
            return self.write(&program, &path, &url, process);
        }
        let this = process.program.display().to_string();
        let text = text(&program, GatewayPlace { url: &url, program: &this });
        if self.form.json {
            let file = path.display().to_string();
            process
                .output
                .json(&json!({ "id": program.id, "name": program.title, "file": file, "url": url, "text": text, "then": program.then }));
            return Ok(());
        }
        let or_write = if program.entry == EntryForm::Yaml { "" } else { ", or use `--write`" };
        process.output.remark(&format!("{}: add this to {}{or_write}", program.title, path.display()));
        process.output.print(&text);
        process.output.remark(program.then);
        Ok(())
    }

    fn list(&self, process: &mut ProcessContext) {
        let path = |program: &ClientProgram| {
            program.file.path(&process.environment).map(|path| path.display().to_string()).unwrap_or_default()
        };
        if self.form.json {
            let described =
                |program: &ClientProgram| json!({ "id": program.id, "name": program.title, "file": path(program) });
            process.output.json(&documents::list("clients", PROGRAMS.iter().map(described).collect()));
            return;
        }
        let mut table = TextTable::new(&["CLIENT", "NAME", "FILE"]);
        for program in &PROGRAMS {
            table.row([program.id, program.title, &path(program)].map(Cell::from));
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
    }

    /// The URL of the endpoint.
    fn endpoint(&self, process: &ProcessContext) -> Result<String, CommandFailure> {
        let root = if let Some(url) = &self.url {
            url.to_string()
        } else {
            root(&arguments::load(&process.options.given(), process)?, process)
        };
        let root = root.trim_end_matches('/');
        Ok(match &self.server {
            Some(name) => format!("{root}/mcp/{name}"),
            None => format!("{root}/mcp"),
        })
    }

    fn write(
        &self,
        program: &ClientProgram,
        path: &Path,
        url: &str,
        process: &mut ProcessContext,
    ) -> Result<(), CommandFailure> {
        let failed = |why: String| {
            CommandFailure::failed(format!("{} stays as it is", path.display()))
                .why(why)
                .advise(format!("`lockkeeper client {}` prints what to add by hand", program.id))
        };
        let existing = if self.replace { Existing::Replaced } else { Existing::Kept };
        let before = read(path).map_err(|error| failed(error.to_string()))?;
        let this = process.program.display().to_string();
        let gateway = GatewayPlace { url, program: &this };
        let after = with_entry(program, &before, gateway, existing).map_err(|error| match error {
            entry::EntryError::Taken => failed(error.to_string()).advise("add `--replace` to replace it"),
            error => failed(error.to_string()),
        })?;
        if let Some(after) = &after {
            replaced_file::write(path, after).map_err(|error| failed(error.to_string()))?;
        }
        if self.form.json {
            let became = if after.is_some() { Became::Written } else { Became::Unchanged };
            Self::report(program, path, url, became, process);
            return Ok(());
        }
        if after.is_none() {
            process.output.print(&format!("{} already has the entry", path.display()));
            return Ok(());
        }
        process.output.print(&format!("added `lockkeeper` ({url}) to {}", path.display()));
        process.output.remark(&format!("file: {}", path.display()));
        process.output.remark(program.then);
        Ok(())
    }

    fn remove(&self, program: &ClientProgram, path: &Path, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let failed = |why: String| {
            CommandFailure::failed(format!("{} stays as it is", path.display()))
                .why(why)
                .advise(format!("remove the entry of `lockkeeper client {}` by hand", program.id))
        };
        let before = read(path).map_err(|error| failed(error.to_string()))?;
        let removed = without_entry(program, &before).map_err(|error| failed(error.to_string()))?;
        if let Some((after, _)) = &removed {
            replaced_file::write(path, after).map_err(|error| failed(error.to_string()))?;
        }
        let url = removed.as_ref().map(|(_, url)| url.as_str()).unwrap_or_default();
        if self.form.json {
            let became = if removed.is_some() { Became::Removed } else { Became::Unchanged };
            Self::report(program, path, url, became, process);
            return Ok(());
        }
        let file = path.display();
        process.output.print(&match &removed {
            None => format!("{file} has no entry `lockkeeper`"),
            Some(_) if url.is_empty() => format!("removed `lockkeeper` from {file}"),
            Some(_) => format!("removed `lockkeeper` ({url}) from {file}"),
        });
        if removed.is_some() {
            process.output.remark("The app keeps its tokens until you end its grant: on your account page, or with `lockkeeper grants revoke`.");
        }
        Ok(())
    }

    /// Prints the outcome as JSON.
    fn report(program: &ClientProgram, path: &Path, url: &str, became: Became, process: &mut ProcessContext) {
        let file = path.display().to_string();
        let url = (!url.is_empty()).then_some(url);
        process.output.json(&documents::change(became, json!({ "id": program.id, "file": file, "url": url })));
    }
}

/// The URL of the gateway for clients, without a slash at the end.
pub(in crate::cli) fn root(config: &Config, process: &ProcessContext) -> String {
    // `serve` may have been started on another port than the file names
    let running = || GatewayClient::local(process).ok()?.loopback_url().map(str::to_owned);
    let running = if config.public_url.is_none() { running() } else { None };
    let url = running.unwrap_or_else(|| config.public_url(config.listen).to_string());
    url.trim_end_matches('/').to_owned()
}

/// The text of a file; empty if there is none.
fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path).is_ok_and(|file| file.len() > LONGEST) {
        return Err(io::Error::other("it is longer than 16 MiB"));
    }
    match text_of(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}
