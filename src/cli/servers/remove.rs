//! `lockkeeper remove`: removes a server from the configuration file.

use clap::Args;
use serde_json::json;

use super::servers_file::ServersFile;
use crate::{
    cli::{
        running::running_gateway::{self, FileReader},
        terminal::{
            documents::{self, Became},
            ending::EndingArgs,
            failure::CommandFailure,
            process::ProcessContext,
        },
    },
    model::BackendId,
};

/// `remove`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The name of the server
    name: String,
    #[command(flatten)]
    ending: EndingArgs,
}

impl RemoveArgs {
    /// Removes the server with its whole table.
    pub fn run(&self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let mut file = ServersFile::open(process)?;
        let shown = file.name.display().to_string();
        let found = BackendId::normalise(&self.name).ok().and_then(|id| file.named(&id));
        let Some(name) = found else {
            return Err(CommandFailure::failed(format!("{shown} has no server `{}`", self.name))
                .advise("`lockkeeper list` shows the servers"));
        };
        file.remove(&name);
        let was_last = file.is_bare();
        if !was_last {
            // a group may still name it
            file.load(process)?;
        }
        self.ending
            .confirm(&format!("Remove the server `{name}` with everything that {shown} says about it?"), process)?;
        file.write()?;
        if self.ending.form.json {
            let what = json!({ "id": name, "file": shown });
            process.output.json(&documents::change(Became::Removed, what));
            return Ok(());
        }
        process.output.print(&format!("removed `{name}` from {shown}"));
        process.output.remark(&format!("file: {}", file.path().display()));
        if was_last {
            process.output.remark("it was the last one: clients find no tools until you add another");
        }
        if let FileReader::Running = running_gateway::reader(file.path(), process) {
            process.output.remark("the running gateway ends it within seconds");
        }
        Ok(())
    }
}
