"""The status page: what `/api/v1/state` says, as pictures, in a browser.

    serve        puts the parts together into one document, and serves it with the headers that hold it to itself
    page.html    landmarks and headings, with places for style and script
    style.css    light and dark, from a phone to a wall
    script/      reads the state every few seconds and draws it; nothing of the cluster is ever taken for markup

There is no build step: the parts are read once, when the program starts.
"""
