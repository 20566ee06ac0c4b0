"""The hot frames of a connection, handled below the client library.

aio-pika stays the client: it connects, authenticates, keeps the heartbeat, opens and closes channels and comes back.
aiormq, under it, takes the byte stream from a factory that it is given; :mod:`stream` is that factory, and keeps the
frames back of which there are many: deliveries with their content, confirms and returns. Everything else passes.

    stream    socket in, socket out; knows when the socket takes no more
    splitter  bytes -> frames -> the channel they belong to, or on to aiormq
    channel   one open channel: puts contents together, hands deliveries to a session, confirms to a book
    book      what is published and not yet confirmed
    lane      publishes, each call in one write        (see triumvir.broker.publisher)
    session   receives, acknowledges in one write      (see triumvir.broker.consumer)
    frames, properties   bytes
    compatibility        whether all this may stand under the aiormq that is installed
"""
