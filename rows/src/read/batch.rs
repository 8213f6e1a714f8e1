//! Many rows as columns: buffers of the layout that Arrow and others have, filled again and again.
