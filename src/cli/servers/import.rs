//! `lockkeeper import`: copies the servers from another program's file into the configuration file.

use std::{fs, path::PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::servers_file::ServersFile;
use crate::{
    cli::{
        running::running_gateway::{self, FileReader},
        terminal::{
            documents::{self, Became, FormatArgs},
            failure::CommandFailure,
            output::number_of,
            process::ProcessContext,
        },
    },
    config::{ImportedFile, ImportedServer, text_of},
    model::BackendId,
    support::printable,
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper import ~/.config/Claude/claude_desktop_config.json
  lockkeeper import .vscode/mcp.json

The file stays as it is. Servers that are switched off there are left out, and
so
is one whose name is already taken. Nothing is started: `lockkeeper check`
does that. `lockkeeper serve --config FILE` serves such a file without a copy.";

/// Maximum size of the file, in bytes.
const LONGEST: u64 = 4 << 20;

/// `import`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// The file in which another program lists its servers
    file: PathBuf,
    #[command(flatten)]
    form: FormatArgs,
}

/// The added servers, and remarks on what a person should know.
#[derive(Default)]
struct Report {
    added: Vec<String>,
    remarks: Vec<String>,
}

impl ImportArgs {
    /// Writes the servers, and reports what a person should look at.
    pub fn run(&self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let source = self.file.display().to_string();
        let (imported, text) = self.read(process)?;
        if imported.servers.is_empty() {
            return Err(CommandFailure::usage(format!("{source} lists no servers, or none that is switched on"))
                .advise(
                    "name the file in which a client has its MCP servers; `lockkeeper client` shows where those are",
                ));
        }
        let mut file = ServersFile::open(process)?;
        let mut report = Report::default();
        for server in &imported.servers {
            report.take(server, &mut file, process);
        }
        report.of_the_whole(&imported, &text);
        if !report.added.is_empty() {
            file.write()?;
        }
        let shown = file.path().display().to_string();
        if self.form.json {
            process.output.json(&report.document(&shown));
        } else {
            let count = report.added.len();
            let names = report.added.join(", ");
            let what = number_of(count, "server");
            let colon = if count == 0 { "" } else { ": " };
            process.output.print(&printable(&format!("added {what} of {source} to {shown}{colon}{names}")));
            for remark in &report.remarks {
                process.output.remark(remark);
            }
        }
        if report.added.is_empty() {
            return Ok(());
        }
        process.output.remark(&format!("file: {shown}"));
        match running_gateway::reader(file.path(), process) {
            FileReader::Running => process.output.remark("the running gateway picks it up within seconds"),
            FileReader::OfAnother(gateway) => process.output.remark(&format!(
                "the running gateway does not pick it up: {}",
                running_gateway::description(&gateway)
            )),
            FileReader::Nobody => {
                let options = process.options.as_text();
                process.output.remark(&format!(
                    "`lockkeeper check{options}` starts each once, `lockkeeper serve{options}` serves them"
                ));
            }
        }
        Ok(())
    }

    fn read(&self, process: &ProcessContext) -> Result<(ImportedFile, String), CommandFailure> {
        let source = self.file.display();
        let path = process.folder.join(&self.file);
        let failed = |why: String| CommandFailure::failed(format!("{source} cannot be read")).why(why);
        let found = fs::metadata(&path).map_err(|error| {
            failed(error.to_string()).advise("`lockkeeper client` shows where clients have their files")
        })?;
        if found.is_dir() {
            return Err(failed("it is a folder".to_owned()).advise("name the file in it"));
        }
        if found.len() > LONGEST {
            return Err(failed("it is longer than 4 MiB".to_owned()));
        }
        let text = text_of(&path).map_err(|error| failed(error.to_string()))?;
        let imported = ImportedFile::read(&self.file, &text, &process.folder)?;
        Ok((imported, text))
    }
}

// === impl Report ===

impl Report {
    fn document(&self, file: &str) -> Value {
        let became = if self.added.is_empty() { Became::Unchanged } else { Became::Added };
        let servers: Vec<Value> = self.added.iter().map(|id| json!({ "id": id })).collect();
        documents::change(became, json!({ "servers": servers, "file": file, "remarks": self.remarks }))
    }

    /// Copies a server, unless the configuration would be invalid with it.
    fn take(&mut self, server: &ImportedServer, file: &mut ServersFile, process: &ProcessContext) {
        let name = &server.name;
        let Ok(id) = BackendId::normalise(name) else {
            self.remarks.push(format!(
                "`{name}` is left out: a name begins with a letter; `lockkeeper add` adds it under another name"
            ));
            return;
        };
        if file.named(&id).is_some() {
            self.remarks.push(format!("`{name}` is left out: the file already has a server `{id}`"));
            return;
        }
        let faults = match file.import(&id, server) {
            Ok(()) => file.load(process).err().map(|problems| problems.to_string()),
            Err(failure) => Some(failure.what),
        };
        if let Some(faults) = faults {
            file.remove(id.as_str());
            let faults: Vec<&str> = faults.lines().map(str::trim).collect();
            self.remarks.push(format!("`{name}` is left out: {}", faults.join("; ")));
            return;
        }
        if id.as_str() != name {
            self.remarks.push(format!("`{name}` is called `{id}` here"));
        }
        if !server.left_out.is_empty() {
            self.remarks.push(format!("`{id}`: {} have no meaning here, and are left out", server.left_out.join(", ")));
        }
        for secret in &server.secrets {
            self.remarks.push(format!(
                "`{id}`: {secret} is a secret in the file; better write it as `${{NAME}}`, with a variable of the gateway"
            ));
        }
        self.added.push(id.to_string());
    }

    /// Adds remarks on the file as a whole.
    fn of_the_whole(&mut self, imported: &ImportedFile, text: &str) {
        for input in &imported.inputs {
            self.remarks.push(format!("set {} in the gateway's environment: {}", input.variable, input.question));
        }
        if !imported.switched_off.is_empty() {
            self.remarks.push(format!("switched off there, and left out: {}", imported.switched_off.join(", ")));
        }
        if !imported.other_projects.is_empty() {
            let folders = imported.other_projects.join(", ");
            self.remarks.push(format!("further servers are those of the folders {folders}: run this there"));
        }
        let is_comment = |line: &str| ["//", "/*", "#"].iter().any(|sign| line.trim_start().starts_with(sign));
        if text.lines().any(is_comment) {
            self.remarks.push("the comments of the file are not copied".to_owned());
        }
    }
}
