//! The data of a report: documents by request, each content once, packed as they come.

use anyhow::Result;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use ttmem_report::Timestamp;

/// What is read out of a document and put back by the page: documents of instants at which nothing had
/// changed are the same without it.
const TIME: &str = "time";

pub(super) struct Data {
    packed: GzEncoder<Vec<u8>>,
    /// The place of each content, by its digest: contents themselves are only kept packed.
    contents: HashMap<u128, usize>,
    digests: [RandomState; 2],
    /// The place of each request's content.
    documents: Map<String, Value>,
    instants: Vec<Timestamp>,
}

impl Data {
    pub(super) fn new() -> Result<Self> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(b"{\"contents\":[")?;
        Ok(Self {
            packed,
            contents: HashMap::new(),
            digests: [RandomState::new(), RandomState::new()],
            documents: Map::new(),
            instants: Vec::new(),
        })
    }

    /// Adds the answer to a request, of an instant or of none.
    pub(super) fn put(
        &mut self,
        request: &str,
        instant: Option<Timestamp>,
        document: &[u8],
    ) -> Result<()> {
        let mut content: Value = serde_json::from_slice(document)?;
        if let (Some(_instant), Value::Object(fields)) = (instant, &mut content) {
            fields.remove(TIME);
        }
        let content = serde_json::to_vec(&content)?;
        let next = self.contents.len();
        // Nobody can look for two contents with the same digest: its keys are random.
        let [high, low] = self.digests.each_ref().map(|keys| keys.hash_one(&content));
        let digest = u128::from(high) << 64 | u128::from(low);
        let place = *self.contents.entry(digest).or_insert(next);
        if place == next {
            if next > 0 {
                self.packed.write_all(b",")?;
            }
            self.packed.write_all(&content)?;
        }
        let key = match instant {
            Some(instant) => with_instant(request, instant),
            None => request.to_owned(),
        };
        self.documents.insert(key, place.into());
        Ok(())
    }

    pub(super) fn add_instant(&mut self, instant: Timestamp) {
        self.instants.push(instant);
    }

    pub(super) fn instants(&self) -> usize {
        self.instants.len()
    }

    pub(super) fn documents(&self) -> usize {
        self.documents.len()
    }

    /// What was written so far, packed and as text.
    pub(super) fn bytes(&self) -> usize {
        base64::encoded_len(self.packed.get_ref().len(), true).unwrap_or(usize::MAX)
    }

    /// The text for the file.
    pub(super) fn finish(mut self) -> Result<String> {
        self.instants.sort_unstable();
        let rest = json!({ "documents": self.documents, "instants": self.instants });
        let rest = serde_json::to_string(&rest)?;
        let rest = rest.trim_start_matches('{');
        write!(self.packed, "],{rest}")?;
        Ok(BASE64_STANDARD.encode(self.packed.finish()?))
    }
}

/// A request of an instant, with its parameters in alphabetical order as `show/web/src/source.ts` writes them.
fn with_instant(request: &str, instant: Timestamp) -> String {
    let (path, query) = request.split_once('?').unwrap_or((request, ""));
    let at = format!("at={}", instant.to_string().replace(':', "%3A"));
    let mut pairs: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    pairs.push(&at);
    pairs.sort_unstable();
    format!("{path}?{}", pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn equal_documents_of_several_instants_are_kept_once_and_found_by_their_requests() {
        let mut data = Data::new().unwrap();
        let instants = [1, 2].map(Timestamp::from_unix_nanos);
        for instant in instants.into_iter().rev() {
            let document = json!({ "time": instant, "rows": ["</script>"] }).to_string();
            data.put("/api/v1/x?sort=size", Some(instant), document.as_bytes())
                .unwrap();
            data.add_instant(instant);
        }
        data.put("/api/v1/recording", None, br#"{"time":3}"#)
            .unwrap();
        assert_eq!((data.instants(), data.documents()), (2, 3));
        let packed = BASE64_STANDARD.decode(data.finish().unwrap()).unwrap();
        let mut text = String::new();
        GzDecoder::new(packed.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            read["contents"],
            json!([{ "rows": ["</script>"] }, { "time": 3 }])
        );
        assert_eq!(read["instants"], json!(instants));
        let request = "/api/v1/x?at=1970-01-01T00%3A00%3A00.000000002Z&sort=size";
        assert_eq!(read["documents"][request], 0);
        assert_eq!(read["documents"]["/api/v1/recording"], 1);
    }
}
