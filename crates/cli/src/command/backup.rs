//! `subscope backup` and `subscope restore`: a copy of the data folder that is whole while a hub writes, and its return.
//!
//! The copy is a data folder: `--store` looks into it. Its `store.db` is written last, so that a folder that has one is
//! complete.

use std::{fs, io, path::Path};

use subscope_hub::index::forget_archived;
use subscope_model::{SessionId, StatsQuery};
use subscope_platform::{OpenPolicy as _, create_private_folder};
use subscope_render::text::plural;
use subscope_store::{Access, Restored, SessionQueries, SqliteStore, TextIndex, copy_database};

use super::history::{self, rows_fingerprint};
use crate::{
    data_files::{DATA, InBackup},
    hub_connection,
    prelude::*,
};

/// Name of the settings file in a backup, as in the settings folder.
const SETTINGS: &str = "config.toml";

pub(crate) fn back_up(args: &BackupArgs, context: &Context) -> Result<(), CliError> {
    let (data, folder) = (context.data_folder()?, &args.folder);
    let store = history::open_rows(Access::Read, context)??;
    if is_inside(folder, &data) {
        return Err(CliError::usage(format!("{} is in the data folder itself", folder.display())));
    }
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let error = CliError::failed(format!("{} is not empty", folder.display()));
        return Err(error.hint("name a new folder: a backup replaces nothing"));
    }
    let cannot = |error| CliError::because(format!("cannot write a backup to {}", folder.display()), error);
    create_private_folder(folder).map_err(cannot)?;
    // What waits for the store first: what is taken into it meanwhile is in both, and counts once.
    for (name, treatment) in DATA {
        match treatment {
            InBackup::Database(file) if data.join(file).exists() => {
                copy_database(&data.join(file), &folder.join(file))?;
            }
            InBackup::Files => copy_missing(&data.join(name), &folder.join(name)).map_err(cannot)?,
            InBackup::Database(_) | InBackup::LeftOut => {}
        }
    }
    if let Some(settings) = context.environment.config_folder() {
        copy_missing(&settings.join(SETTINGS), &folder.join(SETTINGS)).map_err(cannot)?;
    }
    store.copy_to(folder)?;
    let sessions = plural(store.stats(&StatsQuery::default())?.total.sessions, "session");
    output::print(&format!("{sessions} in {}\n", folder.display()))
}

pub(crate) fn restore(args: &RestoreArgs, context: &Context) -> Result<(), CliError> {
    let (data, folder) = (context.data_folder()?, &args.folder);
    if is_inside(folder, &data) || is_inside(&data, folder) {
        return Err(CliError::usage(format!("{} is no folder beside the data folder", folder.display())));
    }
    hub_connection::stop_background_hub(&data)?;
    let Restored { aside, forgotten } =
        SqliteStore::restore(&data, folder, &rows_fingerprint(context)?, context.now_us())?;
    let cannot = |error| CliError::because(format!("cannot restore {}", folder.display()), error);
    for (name, treatment) in DATA {
        match treatment {
            // What is there already is newer.
            InBackup::Database(file) => copy_missing(&folder.join(file), &data.join(file)).map_err(cannot)?,
            InBackup::Files => copy_missing(&folder.join(name), &data.join(name)).map_err(cannot)?,
            InBackup::LeftOut => {}
        }
    }
    // Its passages name rows of the other store.
    TextIndex::delete(&data)?;
    let store = history::open_rows(Access::Read, context)??;
    let all: Vec<SessionId> = store.forgotten_sessions()?.into_iter().collect();
    forget_archived(&store, &history::archive(context)?, &all)?;
    let settings = context.environment.config_folder().map(|settings| settings.join(SETTINGS));
    if let Some(settings) = settings.filter(|_| folder.join(SETTINGS).exists()) {
        if settings.exists() {
            context.info(&format!(
                "your settings stay as they are; those of the backup are {}",
                folder.join(SETTINGS).display()
            ));
        } else {
            settings.parent().map_or(Ok(()), create_private_folder).map_err(cannot)?;
            copy_missing(&folder.join(SETTINGS), &settings).map_err(cannot)?;
        }
    }
    if let Some(aside) = aside {
        let until = "`subscope forget` of any session deletes it, and an index after 30 days";
        context.info(&format!("the store that was there is in {}: {until}", aside.display()));
    }
    if forgotten > 0 {
        context.info(&format!("{} forgotten since stay forgotten", plural(forgotten, "session")));
    }
    let sessions = plural(store.stats(&StatsQuery::default())?.total.sessions, "session");
    output::print(&format!("{sessions} restored; `subscope index` reads what is new since\n"))
}

/// Whether a folder, which need not exist, is another or in it.
fn is_inside(folder: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        let known = path.ancestors().find_map(|known| Some((known, known.canonicalize().ok()?)));
        known.and_then(|(known, real)| Some(real.join(path.strip_prefix(known).ok()?)))
    };
    let absolute = std::path::absolute(folder).ok();
    let folder = absolute.as_deref().and_then(real);
    folder.zip(real(other)).is_some_and(|(folder, other)| folder.starts_with(other))
}

/// Copies a file, or the files of a folder, where there is none yet; what vanishes meanwhile is left out, for a hub has
/// taken it. Links are no files of ours.
fn copy_missing(from: &Path, to: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.is_dir() {
        create_private_folder(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_missing(&from.join(&name), &to.join(&name))?;
        }
    } else if found.is_file() {
        let mut bytes = match fs::File::open(from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let created = fs::OpenOptions::new().write(true).create_new(true).private().open(to);
        let mut copy = match created {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            created => created?,
        };
        io::copy(&mut bytes, &mut copy)?;
        copy.sync_all()?;
    }
    Ok(())
}
