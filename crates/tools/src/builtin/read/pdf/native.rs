//! PDF without other programs: plainer text, for machines that have no poppler. The work has a
//! thread of its own that is given up when it takes too long; its memory has no bound, which is why
//! this is not part of the usual build.

use super::{Extracted, MAX_PAGES, MAX_WHOLE_PAGES, Pages};
use lopdf::Document;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::sync::oneshot;

const DEADLINE: Duration = Duration::from_secs(30);

/// The texts of pages.
pub(super) async fn extract(bytes: &Arc<Vec<u8>>, pages: Option<Pages>) -> Result<Extracted, String> {
    let bytes = Arc::clone(bytes);
    let (tx, rx) = oneshot::channel();
    // Not a task of the runtime: that would wait at its end for one that never comes back.
    let thread = std::thread::Builder::new().name("pdf".to_owned()).spawn(move || {
        let found = catch_unwind(AssertUnwindSafe(|| take_apart(&bytes, pages)));
        // Who asked may have gone.
        let _ = tx.send(found.unwrap_or_else(|_| Err("it broke its reader".to_owned())));
    });
    thread.map_err(|error| error.to_string())?;
    match tokio::time::timeout(DEADLINE, rx).await {
        Ok(Ok(found)) => found,
        Ok(Err(_)) => Err("it broke its reader".to_owned()),
        Err(_) => Err("taking it apart took too long".to_owned()),
    }
}

fn take_apart(bytes: &[u8], pages: Option<Pages>) -> Result<Extracted, String> {
    let document = Document::load_mem(bytes).map_err(|error| error.to_string())?;
    if document.is_encrypted() {
        return Err("it is locked by a password".to_owned());
    }
    let total = document.get_pages().len();
    let wanted = match pages {
        Some(Pages(pages)) => pages,
        None if total > MAX_WHOLE_PAGES => return Ok(Extracted { total, texts: Vec::new() }),
        None => 1..=total,
    };
    let texts = wanted
        .take_while(|page| *page <= total)
        .take(MAX_PAGES)
        .filter_map(|page| u32::try_from(page).ok())
        // A page that cannot be understood is shown as one without text.
        .map(|page| document.extract_text(&[page]).unwrap_or_default())
        .collect();
    Ok(Extracted { total, texts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pages_are_found_and_broken_files_refused() {
        let two = crate::builtin::read::pdf::tests::document(&["Hello one", "Hello two"]);
        let found = extract(&Arc::new(two), None).await.unwrap();
        assert_eq!((found.total, found.texts.len()), (2, 2));
        assert!(found.texts[1].contains("Hello two"), "{:?}", found.texts);
        for hostile in [b"%PDF-1.4".to_vec(), [b"%PDF-1.4\n".as_slice(), &vec![b'['; 200_000]].concat()] {
            assert!(extract(&Arc::new(hostile), None).await.is_err());
        }
    }
}
