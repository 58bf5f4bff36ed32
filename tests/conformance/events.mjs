// Messages of a server on its streams.

/** The messages of each stream, so that clients can resume it. */
export class Events {
  said = new Map();
  last = 0;
  async storeEvent(stream, message) {
    const id = `${stream}_${++this.last}`;
    this.said.set(id, { stream, message });
    return id;
  }
  async getStreamIdForEventId(id) {
    return this.said.get(id)?.stream;
  }
  async replayEventsAfter(id, { send }) {
    const stream = this.said.get(id)?.stream ?? '';
    let after = false;
    for (const [other, said] of this.said) {
      if (after && said.stream === stream && Object.keys(said.message).length) await send(other, said.message);
      after ||= other === id;
    }
    return stream;
  }
}
